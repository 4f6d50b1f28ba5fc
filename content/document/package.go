package document

import (
	"path"
	"strings"
)

// inPackage reports whether an archive with a member of this name is a software package: each kind
// has a file that describes it, at a place of its own.
func inPackage(name string) bool {
	name = strings.TrimPrefix(name, "./")
	if name == "META-INF/MANIFEST.MF" || name == "EGG-INFO/PKG-INFO" || name == "metadata.gz" { // jar, egg, gem
		return true
	}
	dir, file := path.Split(name)
	switch dir = strings.TrimSuffix(dir, "/"); {
	case dir == "":
		return strings.HasSuffix(file, ".nuspec")
	case inModule(name):
		return true
	case strings.Contains(dir, "/"):
		return false
	case strings.HasSuffix(dir, ".dist-info"): // wheel
		return file == "WHEEL" || file == "METADATA" || file == "RECORD"
	}
	return file == "Cargo.toml" || file == "PKG-INFO" || file == "package.json" // crate, source of Python, npm
}

// inModule reports whether a name is that of a file in a module of Go: example.org/module@v1.2.3/file.
func inModule(name string) bool {
	module, rest, _ := strings.Cut(name, "@v")
	host, _, _ := strings.Cut(module, "/")
	version, _, inside := strings.Cut(rest, "/")
	return inside && strings.Contains(host, ".") && strings.Count(version, ".") >= 2 && version[0] >= '0' && version[0] <= '9'
}
