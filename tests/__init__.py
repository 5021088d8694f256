"""The tests. A behaviour is written once and runs on both faces and every backend: see conftest.py."""
