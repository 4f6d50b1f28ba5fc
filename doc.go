// Package shuultuur holds the pages of the manual that the program reads: those
// with tables of settings. The program is in cmd/shuultuur. The tests here keep
// the structure of the project and compare the manual with the program.
package shuultuur

import "embed"

// Manual is the README.md of each folder with settings.
//
//go:embed */README.md check/*/README.md zone/redins/README.md
var Manual embed.FS
