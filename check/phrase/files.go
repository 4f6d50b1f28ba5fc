package phrase

// Files returns the list files that were read, includes among them: relative
// paths stand on the folder given to New.
func (c *Check) Files() []string { return c.book.files }
