"""Any bytes at all: nothing but packets and clean protocol errors may come of them.

bank             packets from clients, right and wrong, that other tests draw on too
strategies       hypothesis: plain bytes, packets, packets with faults, conversations
targets          what is fuzzed; the first line of each is its invariant
corpus/          past findings and hand-made seeds, a folder for each target
test_targets     hypothesis and the corpus on every target, a part of the normal run
test_builds      the pure and the compiled build say the same of the same bytes
atheris_run      `python -m tests.fuzz.atheris_run --seconds 30 TARGET`, guided by coverage
"""
