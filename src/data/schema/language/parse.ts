/**
 * Reads a definition as written (spec/database.md 5.1) into the normalised tree.
 * All problems are found in one go, each with its place (`fields.lines.price.type`).
 */
import type { Problem } from '../../../kernel/errors.ts';
import type { Field, ObjectField } from './field.ts';
import { isTypeName, typeNames } from './field-language.ts';
import { automaticFields, fieldNameProblem, shortName } from './names.ts';
import { isPlainObject, type OptionContext, readDefault } from './option-context.ts';
import { commonOptions, fittingOptions, readLeaf } from './parse-options.ts';

/** Fields of one schema, nested ones included. */
const MAX_FIELDS = 400;
/** Levels of nesting below a top-level field. */
const MAX_DEPTH = 8;

interface ParseState {
  readonly problems: Problem[];
  fields: number;
}

interface Place {
  readonly path: string;
  readonly depth: number;
  /** Inside the element of an array. */
  readonly inArray: boolean;
}

const plain = { required: false, unique: false, hidden: false, indexed: false } as const;

const report = (state: ParseState, path: string, rule: string, message: string): undefined => {
  state.problems.push({ path, rule, message });
};

/** The tree of a definition without the automatic fields, or what is wrong with it. */
export function parseFields(fields: unknown): {
  readonly tree: ObjectField;
  readonly problems: readonly Problem[];
} {
  const state: ParseState = { problems: [], fields: 0 };
  const tree = parseMap(state, fields, { path: 'fields', depth: 0, inArray: false });
  return {
    tree: tree ?? { kind: 'object', ...plain, fields: new Map() },
    problems: state.problems,
  };
}

function parseMap(state: ParseState, fields: unknown, place: Place): ObjectField | undefined {
  if (!isPlainObject(fields))
    return report(state, place.path, 'type', 'must be an object of fields');
  if (place.depth > MAX_DEPTH)
    return report(state, place.path, 'depth', `fields are nested at most ${MAX_DEPTH} levels deep`);
  const parsed = new Map<string, Field>();
  for (const [name, input] of Object.entries(fields)) {
    const path = `${place.path}.${shortName(name)}`;
    if (place.depth === 0 && automaticFields.has(name))
      checkAutomatic(state, path, { name, input });
    else {
      if (++state.fields > MAX_FIELDS)
        return report(state, place.path, 'count', `a schema has at most ${MAX_FIELDS} fields`);
      const field = parseNamed(state, { name, input }, { ...place, path });
      if (field) parsed.set(name, field);
    }
  }
  if (parsed.size === 0 && state.problems.length === 0)
    report(state, place.path, 'empty', 'needs at least one field');
  return { kind: 'object', ...plain, fields: parsed };
}

function parseNamed(
  state: ParseState,
  { name, input }: { name: string; input: unknown },
  place: Place,
): Field | undefined {
  const problem = fieldNameProblem(name, place.depth === 0);
  if (problem) return report(state, place.path, 'name', problem);
  return parseField(state, input, { ...place, depth: place.depth + 1 });
}

/** `_id`, `createdAt`, `updatedAt` and `__v` may be written down, but only as what they are. */
function checkAutomatic(
  state: ParseState,
  path: string,
  { name, input }: { name: string; input: unknown },
): void {
  const type = isPlainObject(input) ? input.type : input;
  const requested = automaticFields.get(name);
  if (type !== requested)
    report(state, path, 'type', `${name} is made by the platform and is always ${requested}`);
}

function parseField(state: ParseState, input: unknown, place: Place): Field | undefined {
  if (typeof input === 'string') return parseTyped(state, { type: input }, place);
  if (Array.isArray(input)) return parseTyped(state, { type: input }, place);
  if (!isPlainObject(input))
    return report(
      state,
      place.path,
      'type',
      'must be a type name, a list of one type, or an object',
    );
  if (Object.hasOwn(input, 'type')) return parseTyped(state, input, place);
  return parseMap(state, input, place);
}

function parseTyped(
  state: ParseState,
  options: Record<string, unknown>,
  place: Place,
): Field | undefined {
  const { type } = options;
  const written: OptionContext = {
    ...place,
    options,
    report: (path, rule, message) => report(state, path, rule, message),
  };
  if (Array.isArray(type)) return parseArray(state, written, place);
  if (isPlainObject(type)) {
    const context = fittingOptions(written, 'object');
    const common = commonOptions(context, 'object');
    const inner = parseMap(state, type, place);
    return inner && readDefault(context, { ...inner, ...common });
  }
  if (!isTypeName(type)) {
    const known = typeNames.join(', ');
    return report(state, `${place.path}.type`, 'type', `is not a type; the types are ${known}`);
  }
  return readLeaf(written, type);
}

function parseArray(state: ParseState, written: OptionContext, place: Place): Field | undefined {
  const elements = written.options.type as readonly unknown[];
  if (elements.length !== 1)
    return report(
      state,
      `${place.path}.type`,
      'array',
      'a list type holds exactly one element type',
    );
  if (place.depth > MAX_DEPTH)
    return report(state, place.path, 'depth', `fields are nested at most ${MAX_DEPTH} levels deep`);
  const [element] = elements;
  // `{type: ["Relation"], model}` names the target beside the list.
  const relation =
    element === 'Relation' ? { type: 'Relation', model: written.options.model } : element;
  const context = fittingOptions(written, 'array');
  const common = commonOptions(context, 'array');
  const items = parseField(state, relation, { ...place, depth: place.depth + 1, inArray: true });
  if (!items) return undefined;
  if (items.kind === 'vector')
    return report(state, place.path, 'type', 'a Vector cannot be the element of a list');
  if (items.kind === 'relation' && place.inArray) {
    return report(
      state,
      place.path,
      'relation',
      'a relation cannot stand inside the elements of a list',
    );
  }
  return readDefault(context, { kind: 'array', ...common, items });
}
