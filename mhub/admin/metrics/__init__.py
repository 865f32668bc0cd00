"""The numbers as Prometheus reads them, by prometheus-client.

names       what each metric of `mhub.core.metrics` is called there, and which become labels
families    the numbers of one moment as metric families
exposition  families as text, in the format that the scraper asks for
"""
