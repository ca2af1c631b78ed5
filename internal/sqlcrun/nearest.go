package sqlcrun

import (
	"slices"
	"strings"
)

// nearest returns the candidate with the fewest edits from word, if that is
// few enough to be a slip: one edit in three characters.
func nearest(word string, candidates []string) string {
	best, fewest := "", max(1, len(word)/3)+1
	for _, candidate := range slices.Sorted(slices.Values(candidates)) {
		if n := edits(strings.ToLower(word), strings.ToLower(candidate)); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best
}

// edits is Levenshtein's distance, a swap of neighbours counting as one edit.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
