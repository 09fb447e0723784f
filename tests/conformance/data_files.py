"""The files of answers, data/FAMILY.pb.gz: GraphDefs, compressed so that the same bytes give the same file."""
import gzip
import io
import pathlib

DATA = pathlib.Path(__file__).resolve().parent / "data"


def paths():
    """Those of all families, by name."""
    return sorted(DATA.glob("*.pb.gz"))


def family_of(path):
    return path.name.split(".")[0]


def read(path):
    return gzip.decompress(path.read_bytes())


def write(family, data):
    """Writes the family's file, none where there is no data, and returns its size."""
    path = DATA / f"{family}.pb.gz"
    if not data:
        path.unlink(missing_ok=True)
        return 0
    compressed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=compressed, mtime=0) as file:
        file.write(data)
    path.write_bytes(compressed.getvalue())
    return path.stat().st_size
