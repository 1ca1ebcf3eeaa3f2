"""Commands about sources and calibration data."""
