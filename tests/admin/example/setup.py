"""An admin plugin as another package would have it; the tests install it for real."""

from setuptools import setup

setup(
    name="mhub-example-plugin",
    version="1.0",
    packages=["mhub_example", "twisted.plugins"],
    package_data={"mhub_example": ["page.js"]},
)
