"""What an iteration will take on a device that need not be here: traced on tensors without values."""
