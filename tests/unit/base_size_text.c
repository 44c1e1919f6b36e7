#include "base/size_text.h"
#include "tests/tap.h"

static void reads(uint64_t bytes, const char *wanted)
{
	char text[SIZE_TEXT_BYTES];
	is_str(size_text(bytes, text), wanted, "%llu bytes", (unsigned long long)bytes);
}

int main(void)
{
	reads(0, "0 bytes");
	reads(1, "1 byte");
	reads(999, "999 bytes");
	reads(1000, "1.0 kB");
	reads(18100, "18.1 kB");
	reads(99949, "99.9 kB");
	reads(99950, "0.1 MB");
	reads(1500000, "1.5 MB");
	reads(9949999, "9.9 MB");
	reads(9950000, "10 MB");
	reads(UINT64_MAX, "18446744073710 MB");
	return tap_done();
}
