package diag

import "strings"

// Nearest returns the candidate with the fewest edits from word, if that is
// few enough to be a slip, one edit in three characters; otherwise "". Of equals it
// takes the first.
func Nearest(word string, candidates []string) string {
	const longest = 64
	if word == "" || len(word) > longest {
		return ""
	}
	best, bestEdits := "", max(1, len(word)/3)+1
	for _, candidate := range candidates {
		if len(candidate) > longest || len(candidate)-len(word) >= bestEdits || len(word)-len(candidate) >= bestEdits {
			continue
		}
		if edits := distance(strings.ToLower(word), strings.ToLower(candidate)); edits < bestEdits {
			best, bestEdits = candidate, edits
		}
	}
	return best
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours (Damerau and Levenshtein's, restricted) between a and b.
func distance(a, b string) int {
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
