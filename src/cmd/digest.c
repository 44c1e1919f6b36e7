#include "cmd/digest.h"

#include "base/log.h"

bool digest_load(struct digest *digest, const char *path, const struct load_options *load, const struct digest_options *options, struct err *err)
{
	struct load_options one = *load;
	struct profile profile;
	*digest = (struct digest){ 0 };
	one.input = path;
	bool good = load_profile(&profile, &one, err);
	for (size_t i = 0; good && i < profile.meta.caveats.count; i++)
		log_warn("%s: %s", path, profile_text(&profile, profile.meta.caveats.data[i]));
	good = good && digest_build(digest, &profile, path, options, err);
	if (good && options->event == NULL && digest->left_out != NULL)
		log_warn("%s: this is %s alone; left out: %s (--event takes another)", path, digest->event, digest->left_out);
	profile_release(&profile);
	return good;
}
