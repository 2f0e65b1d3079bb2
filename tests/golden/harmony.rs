//! Renders and parses against openai-harmony.
