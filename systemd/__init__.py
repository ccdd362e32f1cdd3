"""What `edge-agent install-service` installs; the installed package has it as edge_agent.systemd."""
