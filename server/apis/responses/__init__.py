"""The Responses API: request models, the events and bodies of responses, and the store of responses."""
