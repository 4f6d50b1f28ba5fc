// match searches files for patterns with Vectorscan or Hyperscan, and prints for each
// line that it reads the processor time of a search of all files in nanoseconds, and
// how many patterns were found. Arguments: a file of patterns, then the files. A
// pattern is a line: 1 or 0 for its case counting or not, a space, and its bytes in
// hexadecimal digits.
#include <hs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int found(unsigned int id, unsigned long long from, unsigned long long to, unsigned int flags, void *count) {
	++*(unsigned long *)count;
	return 0;
}

static void fail(const char *what) {
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static char *slurp(const char *name, size_t *size) {
	FILE *f = fopen(name, "rb");
	if (!f) fail(name);
	fseek(f, 0, SEEK_END);
	*size = ftell(f);
	rewind(f);
	char *text = malloc(*size + 1);
	if (!text || fread(text, 1, *size, f) != *size) fail(name);
	text[*size] = 0;
	fclose(f);
	return text;
}

int main(int argc, char **argv) {
	static char line[1 << 16];
	if (argc < 3) fail("usage: match PATTERNS FILE...");
	size_t room = 1 << 16, n = 0;
	const char **texts = malloc(room * sizeof *texts);
	unsigned *flags = malloc(room * sizeof *flags), *ids = malloc(room * sizeof *ids);
	FILE *f = fopen(argv[1], "r");
	if (!f) fail(argv[1]);
	while (n < room && fgets(line, sizeof line, f)) {
		// As an expression: the interface for literals takes none that begins with 0.
		size_t digits = strcspn(line + 2, "\n");
		char *text = malloc(2 * digits + 1);
		for (size_t i = 0; i < digits / 2; i++) sprintf(text + 4 * i, "\\x%.2s", line + 2 + 2 * i);
		texts[n] = text;
		flags[n] = HS_FLAG_SINGLEMATCH | (line[0] == '1' ? 0 : HS_FLAG_CASELESS);
		ids[n] = n;
		n++;
	}
	hs_database_t *db;
	hs_compile_error_t *wrong;
	if (hs_compile_multi(texts, flags, ids, n, HS_MODE_BLOCK, NULL, &db, &wrong) != HS_SUCCESS) fail(wrong->message);
	hs_scratch_t *scratch = NULL;
	if (hs_alloc_scratch(db, &scratch) != HS_SUCCESS) fail("no scratch space");
	int files = argc - 2;
	char **data = malloc(files * sizeof *data);
	size_t *lengths = malloc(files * sizeof *lengths);
	for (int i = 0; i < files; i++) data[i] = slurp(argv[2 + i], &lengths[i]);
	fprintf(stderr, "%s\n", hs_version());
	while (fgets(line, sizeof line, stdin)) {
		struct timespec a, b;
		unsigned long count = 0;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
		for (int i = 0; i < files; i++)
			if (hs_scan(db, data[i], lengths[i], 0, scratch, found, &count) != HS_SUCCESS) fail("a scan failed");
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
		printf("%lld %lu\n", (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec, count);
		fflush(stdout);
	}
	return 0;
}
