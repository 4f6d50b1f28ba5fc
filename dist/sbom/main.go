// Sbom writes the list of modules in a Go binary as SPDX 2.3 JSON to the
// standard output: sbom VERSION BINARY. The time in it is SOURCE_DATE_EPOCH, so
// that the same binary gives the same bytes.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []module       `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type module struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	Location string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Refs     []reference `json:"externalRefs,omitempty"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: sbom VERSION BINARY")
	}
	d, err := describe(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	w := json.NewEncoder(os.Stdout)
	w.SetIndent("", "\t")
	if err := w.Encode(d); err != nil {
		log.Fatal(err)
	}
}

func describe(version, file string) (*document, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", file, err)
	}
	at := time.Now()
	if s := os.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", s)
		}
		at = time.Unix(n, 0)
	}
	const none = "NOASSERTION"
	name := filepath.Base(file)
	d := &document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace:     "https://shuultuur.example/sbom/" + name + "-" + version,
		Creation:      creation{at.UTC().Format(time.RFC3339), []string{"Tool: shuultuur-sbom"}},
		Packages:      []module{{ID: "SPDXRef-main", Name: info.Main.Path, Version: version, Location: none}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-main"}},
	}
	add := func(path, v, purl string) {
		id := fmt.Sprintf("SPDXRef-%d", len(d.Packages))
		d.Packages = append(d.Packages, module{ID: id, Name: path, Version: v, Location: none,
			Refs: []reference{{"PACKAGE-MANAGER", "purl", purl}}})
		d.Relationships = append(d.Relationships, relationship{"SPDXRef-main", "DEPENDS_ON", id})
	}
	add("std", info.GoVersion, "pkg:golang/std@"+info.GoVersion[2:])
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	return d, nil
}
