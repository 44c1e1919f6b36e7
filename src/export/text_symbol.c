// A function's name in few columns. What tells C++ functions apart is the path and the name before the parameters, so those are kept longest: first the
// parameters go, then template arguments, then the type returned; what is still too wide loses its middle.
#include <string.h>

#include "base/escape.h"
#include "export/text.h"

// Position after the bracket that closes the one at `at`; 0: none does.
static size_t after_closing(const char *s, size_t size, size_t at)
{
	char open = s[at], close = open == '(' ? ')' : '>';
	unsigned depth = 0;
	for (size_t i = at; i < size; i++) {
		bool is_arrow = close == '>' && s[i] == '>' && i > 0 && s[i - 1] == '-';
		if (s[i] == open)
			depth++;
		else if (s[i] == close && !is_arrow && --depth == 0)
			return i + 1;
	}
	return 0;
}

// operator<, operator<<, operator->, operator(): brackets that are names.
static size_t after_operator(const char *s, size_t size, size_t at)
{
	static const char word[] = "operator";
	size_t length = sizeof(word) - 1;
	if (size - at < length || memcmp(s + at, word, length) != 0)
		return at;
	at += length;
	if (size - at >= 2 && s[at] == '(' && s[at + 1] == ')')
		return at + 2;
	while (at < size && strchr("<>=-", s[at]) != NULL)
		at++;
	return at;
}

// The parameters: the last group in parentheses that nothing but qualifiers follows ("(anonymous namespace)::f" has none).
static bool find_parameters(const char *s, size_t size, size_t *from, size_t *to)
{
	bool found = false;
	for (size_t i = 0; i < size;) {
		size_t next = after_operator(s, size, i);
		if (next == i && (s[i] == '(' || s[i] == '<')) {
			size_t end = after_closing(s, size, i);
			if (end == 0)
				return found;
			if (s[i] == '(') {
				found = end == size || s[end] == ' ' || s[end] == '[' || s[end] == '.';
				*from = i;
				*to = end;
			}
			next = end;
		}
		if (found && *to == next && (next == size || s[next] == ' '))
			return true;
		i = next > i ? next : i + 1;
	}
	return found;
}

static void replace(struct buf *name, size_t from, size_t to, const char *with)
{
	struct buf made = { 0 };
	buf_add(&made, name->data, from);
	buf_string(&made, with);
	buf_add(&made, name->data + to, name->size - to);
	buf_release(name);
	*name = made;
}

static void drop_arguments(struct buf *name)
{
	for (size_t i = 0; i < name->size;) {
		const char *s = buf_text(name);
		size_t next = after_operator(s, name->size, i);
		if (next == i && s[i] == '<') {
			size_t end = after_closing(s, name->size, i);
			if (end == 0)
				return;
			if (end - i > 3)
				replace(name, i, end, "<…>");
			next = i + 1;
		}
		i = next > i ? next : i + 1;
	}
}

// "ret ns::f<…>(…)": up to the last space outside brackets before the parameters.
static void drop_returned(struct buf *name, size_t parameters)
{
	const char *s = buf_text(name);
	size_t start = 0;
	for (size_t i = 0; i < parameters;) {
		size_t next = after_operator(s, name->size, i);
		if (next > i)
			break; // "operator bool": what follows is the name
		if (s[i] == '(' || s[i] == '<') {
			next = after_closing(s, name->size, i);
			if (next == 0)
				return;
		} else if (s[i] == ' ') {
			start = i + 1;
		}
		i = next > i ? next : i + 1;
	}
	if (start > 0)
		replace(name, 0, start, "");
}

// " [clone .isra.0]", as demanglers write it: the suffix alone.
static void shorten_clone(struct buf *name)
{
	static const char word[] = " [clone ";
	const char *s = buf_text(name), *at = strstr(s, word);
	if (at == NULL || s[name->size - 1] != ']')
		return;
	size_t from = (size_t)(at - s);
	name->size--;
	replace(name, from, from + strlen(word), "");
}

size_t text_symbol(struct buf *out, const char *symbol, size_t columns)
{
	struct buf name = { 0 };
	size_t from, to;
	escape_terminal(&name, symbol, strlen(symbol)); // text_name leaves escaped text as it is
	if (utf8_columns(buf_text(&name), name.size) > columns && find_parameters(buf_text(&name), name.size, &from, &to)) {
		if (to - from > 3)
			replace(&name, from, to, "(…)");
		if (utf8_columns(buf_text(&name), name.size) > columns)
			drop_arguments(&name);
		if (utf8_columns(buf_text(&name), name.size) > columns && find_parameters(buf_text(&name), name.size, &from, &to))
			drop_returned(&name, from);
		if (utf8_columns(buf_text(&name), name.size) > columns)
			shorten_clone(&name);
	}
	size_t written = text_name(out, buf_text(&name), columns);
	buf_release(&name);
	return written;
}
