"""Features and labels as models take them: columns of frames, encoding and scaling."""
