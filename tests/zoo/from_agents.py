"""Learning by reward: losses of TF-Agents' agents, trained on a batch of made-up experience."""
import numpy as np
import tensorflow as tf
from tf_agents.agents.categorical_dqn import categorical_dqn_agent
from tf_agents.agents.cql import cql_sac_agent
from tf_agents.agents.ddpg import actor_network, critic_network, ddpg_agent
from tf_agents.agents.dqn import dqn_agent
from tf_agents.agents.ppo import ppo_clip_agent, ppo_kl_penalty_agent
from tf_agents.agents.reinforce import reinforce_agent
from tf_agents.agents.sac import sac_agent, tanh_normal_projection_network
from tf_agents.agents.td3 import td3_agent
from tf_agents.networks import actor_distribution_network, categorical_q_network, q_network, q_rnn_network, value_network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step, trajectory

from package_steps import floats
from zoo import eager, function_net

RNG = np.random.default_rng(0)
OBSERVED = tensor_spec.TensorSpec((4,), tf.float32, "observation")
TIMES = time_step.time_step_spec(OBSERVED)
MOVE = tensor_spec.BoundedTensorSpec((), tf.int32, 0, 2, "action")
FORCE = tensor_spec.BoundedTensorSpec((2,), tf.float32, -1.0, 1.0, "action")
BATCH = 3


def adam():
    return tf.keras.optimizers.legacy.Adam(1e-2)


def experience(steps, moves=False):
    kinds = np.ones((BATCH, steps), np.int32)
    kinds[0, -1] = 2
    action = RNG.integers(0, 3, (BATCH, steps)).astype(np.int32) if moves else RNG.uniform(-1, 1, (BATCH, steps, 2)).astype(np.float32)
    return {"kind": kinds, "next_kind": kinds, "seen": floats(RNG, BATCH, steps, 4), "action": action, "reward": floats(RNG, BATCH, steps),
            "discount": np.ones((BATCH, steps), np.float32)}


def trained(make, steps=2, moves=False, info=None, **more):
    feeds = {**experience(steps, moves), **(info(steps) if info else {})}

    def build():
        agent = make()
        agent.initialize()

        def step(kind, next_kind, seen, action, reward, discount, **given):
            return agent._train(trajectory.Trajectory(kind, seen, action, policy_info(given), next_kind, reward, discount), None).loss

        step(**{name: tf.constant(value) for name, value in feeds.items()})
        return function_net(step, feeds, rtol=5e-3, **more)
    return eager(build)


def policy_info(given):
    if not given:
        return ()
    if "logits" in given:
        return {"dist_params": {"logits": given["logits"]}}
    return {"dist_params": {"loc": given["loc"], "scale_diag": given["scale"]}}


def of_moves(steps):
    return {"logits": floats(RNG, BATCH, steps, 3)}


def dqn(kind):
    return kind(TIMES, MOVE, q_network=q_network.QNetwork(OBSERVED, MOVE, fc_layer_params=(8,)), optimizer=adam(), target_update_period=2,
                gradient_clipping=1.0)


def recurrent_dqn():
    net = q_rnn_network.QRnnNetwork(OBSERVED, MOVE, input_fc_layer_params=(8,), lstm_size=(6,), output_fc_layer_params=(8,))
    return dqn_agent.DdqnAgent(TIMES, MOVE, q_network=net, optimizer=adam(), target_update_tau=0.05)


def categorical():
    net = categorical_q_network.CategoricalQNetwork(OBSERVED, MOVE, num_atoms=11, fc_layer_params=(8,))
    return categorical_dqn_agent.CategoricalDqnAgent(TIMES, MOVE, categorical_q_network=net, optimizer=adam(), min_q_value=-2.0,
                                                     max_q_value=2.0, target_update_period=2)


def critic():
    return critic_network.CriticNetwork((OBSERVED, FORCE), joint_fc_layer_params=(8,))


def actor():
    return actor_network.ActorNetwork(OBSERVED, FORCE, fc_layer_params=(8,))


def squashed():
    return actor_distribution_network.ActorDistributionNetwork(
        OBSERVED, FORCE, fc_layer_params=(8,), continuous_projection_net=tanh_normal_projection_network.TanhNormalProjectionNetwork)


def deterministic(kind, **options):
    return kind(TIMES, FORCE, actor(), critic(), actor_optimizer=adam(), critic_optimizer=adam(), target_update_tau=0.05, **options)


def soft(kind, **options):
    return kind(TIMES, FORCE, critic_network=critic(), actor_network=squashed(), actor_optimizer=adam(), critic_optimizer=adam(),
                alpha_optimizer=adam(), target_update_tau=0.05, **options)


def proximal(kind, **options):
    return kind(TIMES, MOVE, optimizer=adam(), actor_net=actor_distribution_network.ActorDistributionNetwork(OBSERVED, MOVE, fc_layer_params=(8,)),
                value_net=value_network.ValueNetwork(OBSERVED, fc_layer_params=(8,)), num_epochs=2, **options)


def reinforce():
    return reinforce_agent.ReinforceAgent(
        TIMES, MOVE, actor_network=actor_distribution_network.ActorDistributionNetwork(OBSERVED, MOVE, fc_layer_params=(8,)), optimizer=adam(),
        value_network=value_network.ValueNetwork(OBSERVED, fc_layer_params=(8,)), value_estimation_loss_coef=0.2, normalize_returns=True,
        entropy_regularization=0.01)


def cases():
    yield "dqn", trained(lambda: dqn(dqn_agent.DqnAgent), moves=True)
    yield "double_dqn", trained(lambda: dqn(dqn_agent.DdqnAgent), moves=True)
    yield "recurrent_dqn", trained(recurrent_dqn, steps=5, moves=True)
    yield "categorical_dqn", trained(categorical, moves=True)
    yield "ddpg", trained(lambda: deterministic(ddpg_agent.DdpgAgent))
    yield "td3", trained(lambda: deterministic(td3_agent.Td3Agent, target_policy_noise=0.2))
    yield "sac", trained(lambda: soft(sac_agent.SacAgent))
    yield "cql_sac", trained(lambda: soft(cql_sac_agent.CqlSacAgent, cql_alpha=1.0, num_cql_samples=3, include_critic_entropy_term=True,
                                          use_lagrange_cql_alpha=True))
    yield "ppo_clip", trained(lambda: proximal(ppo_clip_agent.PPOClipAgent, importance_ratio_clipping=0.2), steps=5, moves=True, info=of_moves)
    yield "ppo_kl_penalty", trained(lambda: proximal(ppo_kl_penalty_agent.PPOKLPenaltyAgent, initial_adaptive_kl_beta=0.5,
                                                     adaptive_kl_target=0.01,
                                                     adaptive_kl_tolerance=0.3, kl_cutoff_factor=2.0, kl_cutoff_coef=10.0), steps=5, moves=True, info=of_moves)
    yield "reinforce", trained(reinforce, steps=5, moves=True)
