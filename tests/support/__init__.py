"""What several tests share: made-up problems, models and files, and reference implementations."""
