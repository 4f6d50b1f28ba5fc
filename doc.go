// Package shuultuur holds the pages of the manual. The program is in
// cmd/shuultuur. The tests here keep the structure of the project and compare
// the manual with the program.
package shuultuur

import "embed"

// Manual is the README.md of the project and of its folders, and the guides.
//
//go:embed README.md */README.md check/*/README.md zone/redins/README.md docs/*.md
var Manual embed.FS
