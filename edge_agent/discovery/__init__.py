"""Finding ONVIF cameras: who is there (WS-Discovery), and under which addresses each streams (SOAP)."""
