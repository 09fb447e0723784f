// Stockham's algorithm: a step for each of the factors of a line's length, over all lines at once. A line whose length has a
// large prime factor is a convolution (Bluestein), which is computed by transforms of a length without one.
#include "cuda/launch/fourier.h"

#include "cuda/launch/complex.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// exp(-2 pi i k / n) for k in [0, n), by angles of up to an eighth of a turn.
MR_DEVICE inline Complex<double> RootOf(int64_t k, int64_t n) {
  const int64_t octant = 8 * k / n, rest = 8 * k - octant * n;
  const double angle = 0.78539816339744830962 * (static_cast<double>(octant % 2 == 0 ? rest : n - rest) / static_cast<double>(n));
  const double c = cos(angle), s = sin(angle);
  const bool swaps = ((octant + 1) & 2) != 0;
  const double re = swaps ? s : c, im = swaps ? c : s;
  return {((octant + 2) & 4) != 0 ? -re : re, (octant & 4) != 0 ? im : -im};
}

template <typename T>
struct RootsBody {
  int64_t n;
  MR_DEVICE Complex<T> operator()(int64_t k) const {
    const Complex<double> root = RootOf(k, n);
    return {static_cast<T>(root.re), static_cast<T>(root.im)};
  }
};

template <typename T>
MR_DEVICE inline Complex<T> Swapped(Complex<T> x) {
  return {x.im, x.re};
}

// The transform of R numbers, in place. Entry k * kUnits * unit of the table is exp(-2 pi i k / R).
template <int R, int kUnits, typename T>
MR_DEVICE inline void Transform(Complex<T>* v, const Complex<T>* roots, int64_t unit);

template <int R, int kUnits, typename T>
MR_DEVICE inline void TransformPrime(Complex<T>* v, const Complex<T>* roots, int64_t unit) {
  using C = Complex<T>;
  constexpr int kPairs = (R - 1) / 2;
  C root[kPairs + 1], sum[kPairs + 1], difference[kPairs + 1];
  const C first = v[0];
  MR_UNROLL for (int m = 1; m <= kPairs; ++m) {
    root[m] = roots[m * kUnits * unit];
    sum[m] = v[m] + v[R - m];
    difference[m] = v[m] - v[R - m];
    v[0] = v[0] + sum[m];
  }
  MR_UNROLL for (int k = 1; k <= kPairs; ++k) {
    C even = first, odd = {T(0), T(0)};
    MR_UNROLL for (int m = 1; m <= kPairs; ++m) {
      const int turn = k * m % R, at = turn <= kPairs ? turn : R - turn;
      even = even + Scaled(sum[m], root[at].re);
      odd = odd + Scaled(difference[m], turn <= kPairs ? root[at].im : -root[at].im);
    }
    v[k] = {even.re - odd.im, even.im + odd.re};
    v[R - k] = {even.re + odd.im, even.im - odd.re};
  }
}

// R = A * B: A transforms of every A-th number, turned, and B transforms across them.
template <int R, int A, int kUnits, typename T>
MR_DEVICE inline void TransformProduct(Complex<T>* v, const Complex<T>* roots, int64_t unit) {
  using C = Complex<T>;
  constexpr int B = R / A;
  C part[A][B];
  MR_UNROLL for (int a = 0; a < A; ++a) {
    MR_UNROLL for (int b = 0; b < B; ++b) part[a][b] = v[a + A * b];
    Transform<B, kUnits * A>(part[a], roots, unit);
  }
  MR_UNROLL for (int b = 0; b < B; ++b) {
    C across[A];
    MR_UNROLL for (int a = 0; a < A; ++a) across[a] = a * b == 0 ? part[a][b] : part[a][b] * roots[a * b * kUnits * unit];
    Transform<A, kUnits * B>(across, roots, unit);
    MR_UNROLL for (int a = 0; a < A; ++a) v[b + B * a] = across[a];
  }
}

template <int R, int kUnits, typename T>
MR_DEVICE inline void Transform(Complex<T>* v, const Complex<T>* roots, int64_t unit) {
  using C = Complex<T>;
  if constexpr (R == 2) {
    const C a = v[0], b = v[1];
    v[0] = a + b;
    v[1] = a - b;
  } else if constexpr (R == 4) {
    const C a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = v[1] - v[3];
    v[0] = a + c;
    v[1] = {b.re + d.im, b.im - d.re};
    v[2] = a - c;
    v[3] = {b.re - d.im, b.im + d.re};
  } else if constexpr (R == 8 || R == 6 || R == 10) {
    TransformProduct<R, 2, kUnits>(v, roots, unit);
  } else if constexpr (R % 4 == 0) {
    TransformProduct<R, 4, kUnits>(v, roots, unit);
  } else if constexpr (R > 3 && R % 3 == 0) {
    TransformProduct<R, 3, kUnits>(v, roots, unit);
  } else {
    TransformPrime<R, kUnits>(v, roots, unit);
  }
}

// One step: numbers `apart` from one another, turned by roots, become numbers `block` from one another. Of the inverse both parts
// change places, on either side.
template <typename T>
struct Step {
  using C = Complex<T>;
  bool inverse;
  T scale;
  int64_t radix;
  int64_t size;           // of a line
  int64_t turn;           // what an index within a block counts in roots
  Divider apart;          // size / radix * inner
  Divider block;          // of the lengths that former steps have transformed, times inner
  Divider inner;
  const C* from;
  C* to;
  const C* roots;         // `size` of them

  // Where a group of numbers begins on either side, and which root turns the second of them.
  struct Place {
    int64_t from, to, root;
  };
  MR_DEVICE Place PlaceOf(int64_t group) const {
    const int64_t line = apart(group), j = group - line * apart.by, whole = block(j), k = j - whole * block.by;
    const int64_t start = line * apart.by * radix;
    return {start + j, start + whole * block.by * radix + k, inner(k) * turn};
  }
  MR_DEVICE bool turns() const { return block.by > inner.by; }
  MR_DEVICE C Load(int64_t i) const { return inverse ? Swapped(from[i]) : from[i]; }
  MR_DEVICE void Store(int64_t i, C x) const {
    const C scaled = Scaled(x, scale);
    to[i] = inverse ? Swapped(scaled) : scaled;
  }
};

template <typename T, int R>
struct RadixBody {
  Step<T> step;
  int64_t unit;  // size / R
  MR_DEVICE void operator()(int64_t i) const {
    const auto [from, to, root] = step.PlaceOf(i);
    Complex<T> v[R];
    MR_UNROLL for (int q = 0; q < R; ++q) v[q] = step.Load(from + q * step.apart.by);
    if (step.turns()) {
      MR_UNROLL for (int q = 1; q < R; ++q) v[q] = v[q] * step.roots[q * root];
    }
    Transform<R, 1>(v, step.roots, unit);
    MR_UNROLL for (int q = 0; q < R; ++q) step.Store(to + q * step.block.by, v[q]);
  }
};

// Any other prime: a thread for each number that is written.
template <typename T>
struct PrimeBody {
  Step<T> step;
  int64_t unit;
  Divider groups;  // of a line: apart, times radix
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t line = groups(i), rest = i - line * groups.by, c = step.apart(rest), j = rest - c * step.apart.by;
    const auto [from, to, root] = step.PlaceOf(line * step.apart.by + j);
    const int64_t by = root + c * unit;
    Complex<T> sum = step.Load(from);
    for (int64_t q = 1, turn = by; q < step.radix; ++q, turn += by) {
      if (turn >= step.size) turn -= step.size;
      sum = sum + step.Load(from + q * step.apart.by) * step.roots[turn];
    }
    step.Store(to + c * step.block.by, sum);
  }
};

// Ascending, so that what a step writes lies side by side as soon as may be.
inline constexpr int kMostRadices = 64;
struct Radices {
  int count = 0;
  int64_t of[kMostRadices] = {};
};

// The radices with kernels of their own, in the order in which factors are looked for; then other primes.
inline constexpr int kOwnRadices[] = {16, 15, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 13, 11};
inline constexpr int64_t kLargestRadix = 61;

// False where there is a prime factor beyond kLargestRadix.
bool FindRadices(int64_t size, Radices* radices) {
  const auto take = [&](int64_t radix) {
    for (; size % radix == 0; size /= radix) {
      int at = radices->count++;
      for (; at > 0 && radices->of[at - 1] > radix; --at) radices->of[at] = radices->of[at - 1];
      radices->of[at] = radix;
    }
  };
  for (const int radix : kOwnRadices) take(radix);
  for (int64_t radix = 17; radix <= kLargestRadix && size > 1; radix += 2) take(radix);
  return size == 1;
}

template <typename T, int R>
bool LaunchRadix(const Queue& queue, const Step<T>& step, int64_t groups) {
  if (step.radix == R) ForEach(queue, groups, RadixBody<T, R>{step, step.size / R});
  return step.radix == R;
}

template <typename T>
void LaunchStep(const Queue& queue, const Step<T>& step, int64_t groups) {
  const auto own = [&]<int... kRadix>() { return (LaunchRadix<T, kRadix>(queue, step, groups) || ...); };
  if (own.template operator()<16, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2>()) return;
  const int64_t n = groups * step.radix;
  ForEach(queue, n, PrimeBody<T>{step, step.size / step.radix, DivideBy(step.apart.by * step.radix, n)});
}

// The result, times `scale`, is in to[0] after an odd number of steps, else in to[1].
template <typename T>
void LaunchSteps(const Queue& queue, const Radices& radices, bool inverse, T scale, const FourierLines& lines, const Complex<T>* from,
                 Complex<T>* const to[2], const Complex<T>* roots) {
  int64_t done = 1;
  for (int s = 0; s < radices.count; ++s) {
    const int64_t radix = radices.of[s], apart = lines.size / radix * lines.inner, groups = lines.outer * apart;
    Step<T> step = {};
    step.inverse = inverse;
    step.scale = s + 1 == radices.count ? scale : T(1);
    step.radix = radix;
    step.size = lines.size;
    step.turn = lines.size / (done * radix);
    step.apart = DivideBy(apart, groups * radix);
    step.block = DivideBy(done * lines.inner, apart);
    step.inner = DivideBy(lines.inner, done * lines.inner);
    step.from = s == 0 ? from : to[(s - 1) % 2];
    step.to = to[s % 2];
    step.roots = roots;
    LaunchStep(queue, step, groups);
    done *= radix;
  }
}

// Some lines of an array, beside each other and padded to `padded` numbers: line after line, or where the lines of the array take
// turns in memory, number after number of all of them.
struct PaddedLines {
  bool take_turns;
  int64_t size, padded, first, count;
  Divider by_count, by_padded, by_size, inner;

  struct Place {
    int64_t line, k;
  };
  // Of index i, where lines have `length` numbers.
  MR_DEVICE Place PlaceOf(int64_t i, const Divider& length) const {
    const int64_t whole = take_turns ? by_count(i) : length(i), rest = i - whole * (take_turns ? count : length.by);
    return take_turns ? Place{rest, whole} : Place{whole, rest};
  }
  MR_DEVICE int64_t InPadded(const Place& place) const {
    return take_turns ? place.k * count + place.line : place.line * padded + place.k;
  }
  MR_DEVICE int64_t InArray(const Place& place) const {
    const int64_t line = first + place.line, outer = inner(line);
    return (outer * size + place.k) * inner.by + line - outer * inner.by;
  }
};

// chirp[k] = exp(-pi i k * k / n).
template <typename T>
struct ChirpBody {
  int64_t n;
  MR_DEVICE Complex<T> operator()(int64_t k) const { return RootsBody<T>{2 * n}(k * k % (2 * n)); }
};

// What lines times the chirp are convolved with: the conjugate chirp, to both sides.
template <typename T>
struct FilterBody {
  int64_t size, padded;
  const Complex<T>* chirp;
  MR_DEVICE Complex<T> operator()(int64_t k) const {
    if (k < size) return Conjugate(chirp[k]);
    return padded - k < size ? Conjugate(chirp[padded - k]) : Complex<T>{T(0), T(0)};
  }
};

template <typename T>
struct PadBody {
  bool inverse;
  PaddedLines lines;
  const Complex<T>* from;
  const Complex<T>* chirp;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    const auto place = lines.PlaceOf(i, lines.by_padded);
    if (place.k >= lines.size) return {T(0), T(0)};
    const Complex<T> x = from[lines.InArray(place)];
    return (inverse ? Swapped(x) : x) * chirp[place.k];
  }
};

template <typename T>
struct FilteredBody {
  PaddedLines lines;
  const Complex<T>* x;
  const Complex<T>* filter;
  MR_DEVICE Complex<T> operator()(int64_t i) const { return x[i] * filter[lines.PlaceOf(i, lines.by_padded).k]; }
};

template <typename T>
struct UnpadBody {
  bool inverse;
  T scale;
  PaddedLines lines;
  const Complex<T>* from;
  const Complex<T>* chirp;
  Complex<T>* to;
  MR_DEVICE void operator()(int64_t i) const {
    const auto place = lines.PlaceOf(i, lines.by_size);
    const Complex<T> x = Scaled(from[lines.InPadded(place)] * chirp[place.k], scale);
    to[lines.InArray(place)] = inverse ? Swapped(x) : x;
  }
};

// Lines whose lengths have a large prime factor: how they are padded, and how many are taken at once.
struct Padding {
  int64_t size = 1, at_once = 1;
  Radices radices;
};
Padding PaddingOf(const FourierLines& lines) {
  constexpr int64_t kStep = 16, kMostAtOnce = int64_t{1} << 22;
  Padding padding;
  padding.size = CeilDiv(2 * lines.size - 1, kStep) * kStep;
  while (!FindRadices(padding.size, &padding.radices) || padding.radices.of[padding.radices.count - 1] > kStep) {
    padding.size += kStep;
    padding.radices = Radices();
  }
  const int64_t count = lines.outer * lines.inner, most = kMostAtOnce / padding.size > 1 ? kMostAtOnce / padding.size : 1;
  padding.at_once = count < most ? count : most;
  return padding;
}

template <typename T>
void LaunchConvolution(const Queue& queue, bool inverse, const FourierLines& lines, const Complex<T>* from, Complex<T>* to,
                       Complex<T>* scratch) {
  using C = Complex<T>;
  const Padding padding = PaddingOf(lines);
  const int64_t padded = padding.size, all = lines.outer * lines.inner;
  C *const chirp = scratch, *const roots = chirp + lines.size, *const filter = roots + padded;
  C *const a = filter + padded, *const b = a + padding.at_once * padded;
  const bool odd = padding.radices.count % 2 != 0;
  MapEach(queue, lines.size, chirp, ChirpBody<T>{lines.size});
  MapEach(queue, padded, roots, RootsBody<T>{padded});
  Map(queue, padded, a, FilterBody<T>{lines.size, padded, chirp});
  C* const to_filter[] = {odd ? filter : b, odd ? b : filter};
  LaunchSteps<T>(queue, padding.radices, false, T(1), {1, padded, 1}, a, to_filter, roots);
  const T scale = inverse ? static_cast<T>(1.0 / static_cast<double>(lines.size)) : T(1);
  for (int64_t first = 0; first < all; first += padding.at_once) {
    const int64_t count = all - first < padding.at_once ? all - first : padding.at_once, n = count * padded;
    const bool take_turns = lines.inner > 1;
    const PaddedLines part = {take_turns, lines.size, padded, first, count, DivideBy(count, n), DivideBy(padded, n),
                              DivideBy(lines.size, n), DivideBy(lines.inner, all)};
    const FourierLines inside = {take_turns ? 1 : count, padded, take_turns ? count : 1};
    C *const there = odd ? b : a, *const other = odd ? a : b, *const forth[] = {b, a}, *const back[] = {other, there};
    Map(queue, n, a, PadBody<T>{inverse, part, from, chirp});
    LaunchSteps<T>(queue, padding.radices, false, T(1), inside, a, forth, roots);
    Map(queue, n, there, FilteredBody<T>{part, there, filter});
    LaunchSteps<T>(queue, padding.radices, true, static_cast<T>(1.0 / static_cast<double>(padded)), inside, there, back, roots);
    ForEach(queue, count * lines.size, UnpadBody<T>{inverse, scale, part, odd ? other : there, chirp, to});
  }
}

// Of transforms z of x[2j] + i x[2j+1], which are even[k] + i odd[k], the spectra even[k] + root[k] odd[k]: even and odd are the
// parts that mirror with and against their sign.
template <typename T>
struct ToSpectraBody {
  int64_t half;  // of the numbers of a row
  Divider columns;
  const Complex<T>* z;
  const Complex<T>* roots;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    const int64_t row = columns(i), k = i - row * columns.by;
    const Complex<T>* const line = z + row * half;
    const Complex<T> x = line[k == half ? 0 : k], y = Conjugate(line[k == 0 ? 0 : half - k]);
    const Complex<T> even = Scaled(x + y, T(0.5)), turned = Scaled(x - y, T(0.5)), odd = {turned.im, -turned.re};
    return even + odd * roots[k];
  }
};
template <typename T>
struct FromSpectraBody {
  Divider half;
  const Complex<T>* spectra;
  const Complex<T>* roots;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    const int64_t row = half(i), k = i - row * half.by;
    const Complex<T>* const line = spectra + row * (half.by + 1);
    Complex<T> x = line[k], y = Conjugate(line[half.by - k]);
    if (k == 0) x.im = y.im = T(0);
    const Complex<T> even = Scaled(x + y, T(0.5)), odd = Scaled(x - y, T(0.5)) * Conjugate(roots[k]);
    return {even.re - odd.im, even.im + odd.re};
  }
};

// Of odd rows: the first half, and the whole by its mirror.
template <typename T>
struct HalfBody {
  int64_t size;
  Divider columns;
  const Complex<T>* z;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    const int64_t row = columns(i), k = i - row * columns.by;
    const Complex<T> number = z[row * size + k];
    return k == 0 ? Complex<T>{number.re, T(0)} : number;  // a sum of real numbers
  }
};
template <typename T>
struct MirrorBody {
  Divider size;
  const Complex<T>* spectra;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    const int64_t row = size(i), k = i - row * size.by, half = size.by / 2 + 1;
    const Complex<T>* const line = spectra + row * half;
    if (k == 0) return {line[0].re, T(0)};
    return k < half ? line[k] : Conjugate(line[size.by - k]);
  }
};

template <typename Fn>
void ForParts(Type type, const Fn& fn) {
  type == Type::kDouble ? fn(Tag<double>()) : fn(Tag<float>());
}
int64_t NumberBytes(Type type) { return type == Type::kDouble ? sizeof(Complex<double>) : sizeof(Complex<float>); }

}  // namespace

int FourierSteps(int64_t size) {
  Radices radices;
  return FindRadices(size, &radices) ? radices.count : 1;
}

int64_t FourierScratchBytes(Type type, const FourierLines& lines) {
  Radices radices;
  if (FindRadices(lines.size, &radices)) return lines.size * NumberBytes(type);
  const Padding padding = PaddingOf(lines);
  return (lines.size + 2 * padding.size + 2 * padding.at_once * padding.size) * NumberBytes(type);
}

void LaunchFourier(const Queue& queue, Type type, bool inverse, const FourierLines& lines, const void* from, void* const to[2],
                   void* scratch) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    using C = Complex<T>;
    C *const both[] = {static_cast<C*>(to[0]), static_cast<C*>(to[1])}, *const roots = static_cast<C*>(scratch);
    Radices radices;
    if (!FindRadices(lines.size, &radices)) return LaunchConvolution<T>(queue, inverse, lines, static_cast<const C*>(from), both[0], roots);
    if (radices.count == 0) return;
    MapEach(queue, lines.size, roots, RootsBody<T>{lines.size});
    const T scale = inverse ? static_cast<T>(1.0 / static_cast<double>(lines.size)) : T(1);
    LaunchSteps<T>(queue, radices, inverse, scale, lines, static_cast<const C*>(from), both, roots);
  });
}

int64_t SpectrumScratchBytes(Type type, int64_t size) { return (size / 2 + 1) * NumberBytes(type); }

void LaunchToSpectra(const Queue& queue, Type type, int64_t rows, int64_t size, const void* transforms, void* spectra, void* scratch) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    using C = Complex<T>;
    const int64_t half = size / 2, columns = half + 1, n = rows * columns;
    const C* const z = static_cast<const C*>(transforms);
    C *const to = static_cast<C*>(spectra), *const roots = static_cast<C*>(scratch);
    if (size % 2 != 0) return Map(queue, n, to, HalfBody<T>{size, DivideBy(columns, n), z});
    MapEach(queue, columns, roots, RootsBody<T>{size});
    Map(queue, n, to, ToSpectraBody<T>{half, DivideBy(columns, n), z, roots});
  });
}

void LaunchFromSpectra(const Queue& queue, Type type, int64_t rows, int64_t size, const void* spectra, void* transforms, void* scratch) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    using C = Complex<T>;
    const int64_t half = size / 2, n = rows * ComplexLength(size);
    const C* const x = static_cast<const C*>(spectra);
    C *const to = static_cast<C*>(transforms), *const roots = static_cast<C*>(scratch);
    if (size % 2 != 0) return Map(queue, n, to, MirrorBody<T>{DivideBy(size, n), x});
    MapEach(queue, half, roots, RootsBody<T>{size});
    Map(queue, n, to, FromSpectraBody<T>{DivideBy(half, n), x, roots});
  });
}

}  // namespace millrace::cuda
