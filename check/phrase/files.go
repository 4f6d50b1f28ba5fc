package phrase

// Files returns the paths of the list files that were read, including included ones.
func (c *Check) Files() []string { return c.book.paths }
