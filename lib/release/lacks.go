package release

import "fmt"

// Lacks returns the mistake of settings that ask the small build for a part
// that it lacks.
func Lacks(part string) error {
	return fmt.Errorf("this is the small build, which lacks %s; leave the setting out, or use the full build", part)
}
