// A checker for the part of JSON Schema (2020-12) that our schemas use: type, const, enum, required, properties, items, minimum, maximum,
// minItems, maxItems and $ref to #/$defs. Anything else in a schema is an error, so that no rule goes unchecked.
#ifndef PERFSAMPLE_TESTS_JSON_SCHEMA_H
#define PERFSAMPLE_TESTS_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct schema_check { json_t *root; char error[512]; };

static bool schema_fail(struct schema_check *c, const char *path, const char *what)
{
	if (c->error[0] == '\0')
		snprintf(c->error, sizeof(c->error), "%s: %s", path, what);
	return false;
}

static bool schema_type_is(const json_t *value, const char *type)
{
	if (strcmp(type, "integer") == 0)
		return json_is_integer(value) || (json_is_real(value) && json_real_value(value) == (double)(long long)json_real_value(value));
	return (strcmp(type, "object") == 0 && json_is_object(value)) || (strcmp(type, "array") == 0 && json_is_array(value))
		|| (strcmp(type, "string") == 0 && json_is_string(value)) || (strcmp(type, "number") == 0 && json_is_number(value))
		|| (strcmp(type, "boolean") == 0 && json_is_boolean(value)) || (strcmp(type, "null") == 0 && json_is_null(value));
}

static bool schema_types(const json_t *value, const json_t *types)
{
	size_t i;
	json_t *one;
	if (json_is_string(types))
		return schema_type_is(value, json_string_value(types));
	json_array_foreach(types, i, one)
		if (schema_type_is(value, json_string_value(one)))
			return true;
	return false;
}

static bool schema_check_value(struct schema_check *c, json_t *schema, json_t *value, const char *path);

static bool schema_members(struct schema_check *c, json_t *properties, json_t *value, const char *path)
{
	const char *key;
	json_t *member;
	if (!json_is_object(value))
		return true;
	json_object_foreach(value, key, member) {
		char below[300];
		snprintf(below, sizeof(below), "%s/%s", path, key);
		json_t *rule = json_object_get(properties, key);
		if (rule == NULL)
			return schema_fail(c, below, "not in the schema"); // ours says all there is
		if (!schema_check_value(c, rule, member, below))
			return false;
	}
	return true;
}

static bool schema_keyword(struct schema_check *c, const char *keyword, json_t *rule, json_t *value, const char *path)
{
	size_t i;
	json_t *one;
	char below[300];
	if (strcmp(keyword, "$ref") == 0) {
		const char *name = strrchr(json_string_value(rule), '/') + 1;
		json_t *target = json_object_get(json_object_get(c->root, "$defs"), name);
		return target != NULL ? schema_check_value(c, target, value, path) : schema_fail(c, path, "dangling $ref");
	}
	if (strcmp(keyword, "type") == 0)
		return schema_types(value, rule) || schema_fail(c, path, "wrong type");
	if (strcmp(keyword, "const") == 0)
		return json_equal(rule, value) || schema_fail(c, path, "not the constant");
	if (strcmp(keyword, "enum") == 0) {
		json_array_foreach(rule, i, one)
			if (json_equal(one, value))
				return true;
		return schema_fail(c, path, "not in the enum");
	}
	if (strcmp(keyword, "required") == 0) {
		json_array_foreach(rule, i, one)
			if (json_is_object(value) && json_object_get(value, json_string_value(one)) == NULL)
				return schema_fail(c, path, json_string_value(one));
		return true;
	}
	if (strcmp(keyword, "properties") == 0)
		return schema_members(c, rule, value, path);
	if (strcmp(keyword, "items") == 0) {
		json_array_foreach(value, i, one) {
			snprintf(below, sizeof(below), "%.250s/%zu", path, i);
			if (!schema_check_value(c, rule, one, below))
				return false;
		}
		return true;
	}
	if (strcmp(keyword, "minimum") == 0)
		return !json_is_number(value) || json_number_value(value) >= json_number_value(rule) || schema_fail(c, path, "below the minimum");
	if (strcmp(keyword, "maximum") == 0)
		return !json_is_number(value) || json_number_value(value) <= json_number_value(rule) || schema_fail(c, path, "above the maximum");
	if (strcmp(keyword, "minItems") == 0)
		return !json_is_array(value) || json_array_size(value) >= (size_t)json_integer_value(rule) || schema_fail(c, path, "too few items");
	if (strcmp(keyword, "maxItems") == 0)
		return !json_is_array(value) || json_array_size(value) <= (size_t)json_integer_value(rule) || schema_fail(c, path, "too many items");
	if (keyword[0] == '$' || strcmp(keyword, "title") == 0 || strcmp(keyword, "description") == 0)
		return true;
	return schema_fail(c, path, keyword);
}

static bool schema_check_value(struct schema_check *c, json_t *schema, json_t *value, const char *path)
{
	const char *keyword;
	json_t *rule;
	json_object_foreach(schema, keyword, rule)
		if (!schema_keyword(c, keyword, rule, value, path))
			return false;
	return true;
}

// "" when `text` is JSON and as the schema file says; else why not.
__attribute__((unused)) static const char *schema_validate(const char *schema_path, const char *text, struct schema_check *c)
{
	json_error_t error;
	*c = (struct schema_check){ .root = json_load_file(schema_path, JSON_REJECT_DUPLICATES, &error) };
	if (c->root == NULL) {
		snprintf(c->error, sizeof(c->error), "%s:%d: %s", schema_path, error.line, error.text);
		return c->error;
	}
	json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (value == NULL)
		snprintf(c->error, sizeof(c->error), "no JSON at %d: %s", error.position, error.text);
	else
		schema_check_value(c, c->root, value, "");
	json_decref(value);
	json_decref(c->root);
	return c->error;
}

#endif
