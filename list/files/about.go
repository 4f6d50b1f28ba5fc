package files

import "strings"

// IsAbout reports whether a file beside lists is for people, by its name.
func IsAbout(name string) bool {
	base, ext, _ := strings.Cut(strings.ToLower(name), ".")
	switch base {
	case "readme", "license", "licence", "copying", "copyright", "authors", "categories", "changelog", "changes", "notice", "usage", "global_usage":
		return ext == "" || ext == "md" || ext == "txt" || ext == "html" || ext == "rst"
	}
	return false
}
