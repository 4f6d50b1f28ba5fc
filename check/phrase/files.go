package phrase

// Files returns the list files that were read, as they were opened; includes
// are among them.
func (c *Check) Files() []string { return c.book.paths }
