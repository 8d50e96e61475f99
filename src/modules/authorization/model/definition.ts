/**
 * Resource definitions: which relations an object of a type may have, and what
 * its actions mean. Parsing checks everything that can be known from the
 * definition alone; `reference-check.ts` adds what depends on other types.
 */

import { errors, type Problem } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { type Condition, parseCondition } from './condition.ts';
import { type Expression, isPlain, oversized, parseExpression } from './expression.ts';
import { fieldKey, isName, ownerColumn, ownerRelation, type RecordField } from './grammar.ts';
import { relationLists, sharingProblems } from './sharing.ts';

export type { RecordField } from './grammar.ts';

/** One entry of a relation's list: who may stand in it. */
export interface AllowedSubject {
  /** Type name, or `*` for any type. */
  readonly type: string;
  /** Set for subject sets: `Team#member`. */
  readonly relation: string;
  /** Only `Type:*` may stand here: everybody of the type. */
  readonly wildcard: boolean;
  /** Name of the condition that such a tuple must carry. */
  readonly condition: string | undefined;
  /** It takes just what it names: `Type` no `Type:*`; and arrows go through its sets. */
  readonly strict: boolean;
}

/** The wire form, kept as written. */
export interface DefinitionInput {
  readonly name: string;
  /** Lists of those who may stand in it, or `{ from: <field> }`. */
  readonly relations: Readonly<Record<string, unknown>>;
  /** What the fields are that relations are taken from, by relation (services/definitions/record-fields.ts). */
  readonly fields?: Readonly<Record<string, RecordField>>;
  /** The records have the columns of `ownerColumn`. */
  readonly ownerColumns?: boolean;
  /** Fields and columns of the records of which changes are noted, by `fieldKey`. */
  readonly followed?: readonly string[];
  /** Actions that were ever granted directly on an object of the type. */
  readonly granted?: readonly string[];
  readonly permissions: Readonly<Record<string, unknown>>;
  readonly conditions?: Readonly<Record<string, unknown>>;
  /** Action on a scope type that lets somebody act for it; the checked action itself unless set. */
  readonly actAs?: string;
  readonly version?: number;
}

export interface Definition {
  readonly name: string;
  readonly relations: ReadonlyMap<string, readonly AllowedSubject[]>;
  /** Relations that are fields of the records of this type. */
  readonly fields: ReadonlyMap<string, RecordField>;
  /** Relations of which one subject stands in columns of the records of this type, beside stored tuples. */
  readonly columns: ReadonlyMap<string, RecordField>;
  /** Those of both of which the database notes changes (services/field-tracking.ts). */
  readonly followed: ReadonlySet<string>;
  /** Actions that somebody may have whom the definition does not give them: they were granted directly. */
  readonly granted: ReadonlySet<string>;
  /** Relations from fields that are not there yet: nobody stands in them. */
  readonly pending: ReadonlySet<string>;
  readonly actions: ReadonlyMap<string, Expression>;
  readonly conditions: ReadonlyMap<string, Condition>;
  readonly actAs: string | undefined;
  /** Relations that users may give each other. */
  readonly shareable: ReadonlySet<string>;
}

const limits = { relations: 64, actions: 64, subjects: 32 };

/** Parses a definition; 400 with every problem and its place. */
export function parseDefinition(input: DefinitionInput): Definition {
  const problems: Problem[] = [];
  if (!isName(input.name)) problems.push(nameProblem('name'));
  const conditions = parseMap(
    input.conditions ?? {},
    { place: 'conditions', max: limits.actions, problems },
    parseCondition,
  );
  const { lists, shareable, strict } = relationLists(input.relations, problems);
  const relations = parseMap(
    lists,
    { place: 'relations', max: limits.relations, problems },
    parseSubjects,
  );
  for (const relation of strict)
    relations.set(
      relation,
      (relations.get(relation) ?? []).map((subject) => ({ ...subject, strict: true })),
    );
  const { fields, pending } = fieldRelations(input);
  const columns = columnRelations(input, lists);
  for (const [relation, { type }] of fields)
    relations.set(relation, [
      { type, relation: '', wildcard: false, condition: undefined, strict: false },
    ]);
  const actions = parseActions(input, relations, problems);
  requireConditions(relations, conditions, problems);
  const rings = cycles(actions);
  problems.push(...(rings.length > 0 ? rings : oversized(actions)));
  if (input.actAs !== undefined && !actions.has(input.actAs)) {
    problems.push({
      path: 'actAs',
      rule: 'action',
      message: `"${input.actAs}" is not an action of ${input.name}`,
    });
  }
  if (rings.length === 0)
    problems.push(...sharingProblems({ name: input.name, relations, actions, shareable }));
  if (problems.length > 0) throw invalidDefinition(problems);
  const { actAs } = input;
  return {
    name: input.name,
    relations,
    fields,
    columns,
    followed: followedRelations(input, [...fields, ...columns]),
    granted: new Set(input.granted),
    pending,
    actions,
    conditions,
    actAs,
    shareable,
  };
}

function parseActions(
  { permissions }: DefinitionInput,
  relations: ReadonlyMap<string, readonly AllowedSubject[]>,
  problems: Problem[],
) {
  const declared = new Set(Object.keys(permissions));
  return parseMap(
    permissions,
    { place: 'permissions', max: limits.actions, problems },
    (value, path) => {
      if (typeof value !== 'string')
        return parseExpression(value, path, { problems, relations, declared, depth: 0 });
      problems.push({
        path,
        rule: 'type',
        message: 'must be a list of roles, also for a single one',
      });
      return undefined;
    },
  );
}

/** Conditions that relations name must be there. */
function requireConditions(
  relations: ReadonlyMap<string, readonly AllowedSubject[]>,
  conditions: ReadonlyMap<string, Condition>,
  problems: Problem[],
): void {
  for (const [relation, subjects] of relations) {
    for (const [i, { condition }] of subjects.entries()) {
      if (condition === undefined || conditions.has(condition)) continue;
      problems.push({
        path: `relations.${relation}[${i}]`,
        rule: 'condition',
        message: `no condition is called "${condition}"`,
      });
    }
  }
}

/** The 400 for a definition, with its problems in words. */
export const invalidDefinition = (problems: readonly Problem[]) =>
  errors.INVALID_ARGUMENTS({
    message: problems.map((p) => `${p.path}: ${p.message}`).join('; '),
    errors: problems,
  });

const nameProblem = (path: string): Problem => ({
  path,
  rule: 'name',
  message: 'must start with a letter and hold only letters, digits and underscores, at most 64',
});

interface MapParsing {
  readonly place: string;
  readonly max: number;
  readonly problems: Problem[];
}

function parseMap<T>(
  input: Readonly<Record<string, unknown>>,
  { place, max, problems }: MapParsing,
  parse: (value: unknown, path: string, problems: Problem[]) => T | undefined,
): Map<string, T> {
  const parsed = new Map<string, T>();
  const entries = Object.entries(input);
  if (entries.length > max)
    problems.push({ path: place, rule: 'size', message: `at most ${max} entries` });
  for (const [name, value] of entries.slice(0, max)) {
    const path = `${place}.${cutText(name, 64)}`;
    if (!isName(name)) {
      problems.push(nameProblem(path));
      continue;
    }
    const result = parse(value, path, problems);
    if (result !== undefined) parsed.set(name, result);
  }
  return parsed;
}

const subjectForm =
  /^(\*|[A-Za-z]\w{0,63})(?:#([A-Za-z]\w{0,63})|(:\*))?(?: with ([A-Za-z]\w{0,63}))?$/;

function parseSubjects(
  value: unknown,
  path: string,
  problems: Problem[],
): readonly AllowedSubject[] | undefined {
  // Read by itself; until then nobody stands there.
  if (isFromField(value)) return [];
  if (!Array.isArray(value) || value.length > limits.subjects) {
    problems.push({
      path,
      rule: 'type',
      message: `must be a list of at most ${limits.subjects} types, or { "from": <field of the record> }`,
    });
    return undefined;
  }
  return value.flatMap((entry, i) => {
    const match = typeof entry === 'string' ? subjectForm.exec(entry) : null;
    const [, type = '', relation = '', wildcard, condition] = match ?? [];
    if (!match || (type === '*' && (relation !== '' || wildcard !== undefined))) {
      problems.push({
        path: `${path}[${i}]`,
        rule: 'subject',
        message:
          'must be "Type", "Type#relation", "Type:*" or "*", each with an optional " with condition"',
      });
      return [];
    }
    return [{ type, relation, wildcard: wildcard !== undefined, condition, strict: false }];
  });
}

/** A relation that is a field of the record, and what the records that it leads to are called, where not by their schema. */
export const isFromField = (
  value: unknown,
): value is { readonly from: string; readonly type?: string } =>
  isPlain(value) &&
  Object.keys(value).every((key) => key === 'from' || key === 'type') &&
  typeof value.from === 'string' &&
  (value.type === undefined || (typeof value.type === 'string' && isName(value.type)));

/** The relations of which one subject stands in columns of the records: owners, where they are listed. */
function columnRelations(
  { ownerColumns = false }: DefinitionInput,
  lists: Readonly<Record<string, unknown>>,
): ReadonlyMap<string, RecordField> {
  const isListed = Array.isArray(lists[ownerRelation]);
  return new Map(ownerColumns && isListed ? [[ownerRelation, ownerColumn]] : []);
}

const followedRelations = (
  { followed = [] }: DefinitionInput,
  relations: readonly (readonly [string, RecordField])[],
): ReadonlySet<string> =>
  new Set(
    relations.flatMap(([relation, field]) =>
      followed.includes(fieldKey(field)) ? [relation] : [],
    ),
  );

/** The relations that are fields, and those whose field is not known. */
function fieldRelations({ relations, fields = {} }: DefinitionInput) {
  const found = new Map<string, RecordField>();
  const pending = new Set<string>();
  for (const [relation, value] of Object.entries(relations)) {
    if (!isFromField(value)) continue;
    const field = fields[relation];
    if (field?.field === value.from) found.set(relation, field);
    else pending.add(relation);
  }
  return { fields: found, pending };
}

/** Actions that are defined by themselves, directly or in a ring. */
function cycles(actions: ReadonlyMap<string, Expression>): Problem[] {
  const problems: Problem[] = [];
  const resolved = new Set<string>();
  const follow = (action: string, trail: readonly string[]): void => {
    if (trail.includes(action)) {
      const ring = [...trail.slice(trail.indexOf(action)), action].join(' -> ');
      if (problems.length === 0)
        problems.push({
          path: `permissions.${action}`,
          rule: 'cycle',
          message: `is defined by itself: ${ring}`,
        });
      return;
    }
    if (resolved.has(action)) return;
    for (const next of referencedActions(actions.get(action))) follow(next, [...trail, action]);
    resolved.add(action);
  };
  for (const action of actions.keys()) follow(action, []);
  return problems;
}

function referencedActions(expression: Expression | undefined): readonly string[] {
  if (!expression) return [];
  switch (expression.kind) {
    case 'action':
      return [expression.action];
    case 'union':
    case 'intersection':
      return expression.of.flatMap(referencedActions);
    case 'exclusion':
      return [...referencedActions(expression.base), ...referencedActions(expression.subtract)];
    default:
      return [];
  }
}
