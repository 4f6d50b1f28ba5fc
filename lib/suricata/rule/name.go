package rule

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// A NameError reports a name of a file that a rule must not use: it could lead out of the folder
// of the rules, which come from outside.
type NameError struct{ Name, Why string }

func (e *NameError) Error() string {
	return fmt.Sprintf("the file %q is refused: %s; name a file below the folder of the rules", e.Name, e.Why)
}

// Limits of names, which are those of common file systems.
const (
	maxName    = 1024
	maxElement = 200 // leaves room for the suffix of a file that is being written
)

// CheckName returns a [NameError] unless name is one of a file below the folder of the rules, on
// any system: Suricata refuses absolute names and ".." as well.
func CheckName(name string) error {
	refuse := func(why string) error { return &NameError{name, why} }
	switch {
	case name == "":
		return refuse("it is empty")
	case len(name) > maxName:
		return refuse(fmt.Sprintf("it is longer than %d bytes", maxName))
	case name[0] == '/':
		return refuse("it is absolute")
	case strings.ContainsRune(name, '\\'):
		return refuse(`it contains a backslash: folders are separated by "/"`)
	case strings.ContainsRune(name, ':'):
		return refuse("it contains a colon, as the names of drives and streams do")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse("it contains a control character")
	case strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") || path.Clean(name) == ".":
		return refuse("it is a folder")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return refuse(`it contains ".."`)
		case part == "" || part == ".":
		case len(part) > maxElement:
			return refuse(fmt.Sprintf("a part of it is longer than %d bytes", maxElement))
		case part[len(part)-1] == '.' || strings.TrimSpace(part) != part:
			return refuse("a part of it begins or ends with a blank, or ends with a dot")
		case isDevice(part):
			return refuse(fmt.Sprintf("%s is the name of a device", part))
		}
	}
	if !fs.ValidPath(path.Clean(name)) {
		return refuse("it is not valid")
	}
	return nil
}

// isDevice reports whether Windows takes a name for that of a device.
func isDevice(part string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(part), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	port, isPort := strings.CutPrefix(base, "COM")
	if !isPort {
		port, isPort = strings.CutPrefix(base, "LPT")
	}
	return isPort && len([]rune(port)) == 1 && strings.ContainsAny(port, "0123456789¹²³")
}
