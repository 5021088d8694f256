"""LangChain beside the engine: the only folder that names it. Nothing here is imported before LangChain is loaded."""
