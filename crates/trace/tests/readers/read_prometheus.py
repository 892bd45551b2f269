"""Reads a metrics file with the parser of the Prometheus client and prints each sample."""
import sys

from prometheus_client.parser import text_string_to_metric_families

with open(sys.argv[1], encoding="utf-8") as file:
    for family in text_string_to_metric_families(file.read()):
        assert family.documentation and family.type in ("summary", "counter", "gauge"), family
        for sample in family.samples:
            labels = ", ".join(f"{name}={value!r}" for name, value in sorted(sample.labels.items()))
            print(f"{family.type} {sample.name} {labels}: {sample.value:.6g}")
