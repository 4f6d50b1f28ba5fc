package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"shuultuur/list/source"
)

const catalogueHelp = `
Shows the well-known sources that a list can name, all or those with WORD in
them. Addresses, licences and sizes may have changed; the homepage knows.`

func showCatalogue(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "list catalogue", "[WORD]", catalogueHelp)
	if status := parse(args, 0, 1); status >= 0 {
		return status
	}
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tWHAT\tCATEGORY\tFORMAT\tSIZE\tLICENCE\tHOMEPAGE")
	found := 0
	for _, k := range source.Catalogue() {
		if !strings.Contains(k.Name+" "+k.What, f.Arg(0)) {
			continue
		}
		found++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.What, k.Category, k.Format, k.Size, k.Licence, k.Home)
	}
	if found == 0 {
		fmt.Fprintf(e.stderr, "shuultuur: the catalogue has nothing with %q\n", f.Arg(0))
		return 1
	}
	w.Flush()
	return 0
}
