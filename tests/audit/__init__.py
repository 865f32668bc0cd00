"""mhub.audit: proofs about the audit log."""
