"""The agent's commands, by what they are about; `edge_agent.cli` gathers them."""
