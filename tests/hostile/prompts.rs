//! Approval prompts show everything they ask about and cannot be answered in advance.
