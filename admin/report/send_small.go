//go:build small

package report

import "shuultuur/release"

// Check refuses: the small build sends no reports.
func (r *Sending) Check() error { return release.Lacks("reports") }
