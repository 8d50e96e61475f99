/** Everything that must be right about an endpoint before it is stored, each problem with its place. */

import { type Condition, leavesOf, type Operand } from '../../../../data/conditions/condition.ts';
import { bindCondition } from '../../../../data/records/filter/bind.ts';
import { PathError, resolveTarget } from '../../../../data/records/filter/target.ts';
import { bindAssignments } from '../../../../data/records/write/assignments.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { aggregateProblems } from './aggregate.ts';
import { requiredProblems, samplesOfField, samplesOfInput } from './check-values.ts';
import {
  assignmentActions,
  changeableFields,
  type EndpointAssignment,
  type EndpointDefinition,
  endpointOperation,
  isWrite,
} from './definition.ts';
import { contextField, filled } from './filter-values.ts';
import { inputProblems } from './inputs.ts';
import { type EndpointLeaf, operandOf, treeCondition } from './parse-tree.ts';
import { requiresProblems } from './requires.ts';

const nameRule = /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/;

interface CheckContext {
  readonly endpoint: EndpointDefinition;
  readonly schema: CompiledSchema;
  readonly schemas: SchemaRegistry;
}

/** The query tree has been parsed already. */
export function endpointProblems(context: CheckContext): readonly Problem[] {
  const { endpoint } = context;
  return [
    ...nameProblems(endpoint),
    ...optionProblems(context),
    ...inputProblems(endpoint),
    ...queryProblems(context),
    ...assignmentProblems(context),
    ...requiredProblems(endpoint, context.schema),
    ...(endpoint.aggregate ? aggregateProblems(context, endpoint.aggregate) : []),
    ...(endpoint.requires ? requiresProblems(context, endpoint.requires) : []),
  ];
}

function nameProblems({ name }: EndpointDefinition): Problem[] {
  if (nameRule.test(name) && !(name in Object.prototype)) return [];
  return [
    {
      path: 'name',
      rule: 'name',
      message: 'starts with a letter or _, then letters, digits, _ and -, at most 63 in all',
    },
  ];
}

const { get, post, put, patch, aggregate } = endpointOperation;

/** A rule about the parts of an endpoint that is broken when the condition holds. */
type Rule = readonly [broken: boolean, path: string, rule: string, message: string];

function optionProblems({ endpoint, schema }: CheckContext): Problem[] {
  const { operation, query, assignments, paginated, sorted, authentication } = endpoint;
  const reads = operation === get || operation === aggregate;
  const assigns = operation === post || operation === put || operation === patch;
  const rowAuthorised = schema.modelOptions.conduit.authorization.enabled;
  const userMatters = `cannot be false: what may be seen of ${schema.name} depends on the user`;
  const aggregateRule = operation === aggregate ? 'required' : 'operation';
  const rules: readonly Rule[] = [
    [paginated && !reads, 'paginated', 'operation', 'is for operations that read'],
    [sorted && !reads, 'sorted', 'operation', 'is for operations that read'],
    [rowAuthorised && !authentication, 'authentication', 'authorization', userMatters],
    [
      assigns && assignments.length === 0,
      'assignments',
      'required',
      'needs at least one assignment',
    ],
    [
      !assigns && assignments.length > 0,
      'assignments',
      'operation',
      'is for operations that write fields',
    ],
    [operation === post && query !== null, 'query', 'operation', 'a create has no query'],
    [
      isWrite(endpoint) && !query,
      'query',
      'empty',
      'must name the records: a write to all of them is not allowed',
    ],
    [
      (operation === aggregate) !== (endpoint.aggregate !== null),
      'aggregate',
      aggregateRule,
      'belongs to operation 5, which needs it',
    ],
  ];
  const problems = rules
    .filter(([broken]) => broken)
    .map(([, path, rule, message]) => ({ path, rule, message }));
  return [...problems, ...permissionProblems(endpoint, schema)];
}

/** What the schema lets others do (spec/database.md 5.7, 5.9). */
function permissionProblems(
  { operation }: EndpointDefinition,
  { name, modelOptions }: CompiledSchema,
): Problem[] {
  const { canCreate, canDelete } = modelOptions.conduit.permissions;
  if (operation === post && !canCreate)
    return [
      {
        path: 'operation',
        rule: 'permissions',
        message: `${name} does not let others create records`,
      },
    ];
  if (operation === endpointOperation.delete && !canDelete) {
    return [
      {
        path: 'operation',
        rule: 'permissions',
        message: `${name} does not let others delete records`,
      },
    ];
  }
  return [];
}

function queryProblems(context: CheckContext): readonly Problem[] {
  const condition = treeCondition(context.endpoint.query);
  return condition ? [...leavesOf(condition)].flatMap((leaf) => leafProblems(context, leaf)) : [];
}

function leafProblems(context: CheckContext, leaf: EndpointLeaf): readonly Problem[] {
  const { schema, schemas } = context;
  const { left, test, place } = leaf;
  if (!('right' in test)) return [];
  try {
    resolveTarget(schema, left.path, { schema: (name) => schemas.get(name), hidden: false });
  } catch (error) {
    if (error instanceof PathError)
      return [{ path: `${place}.schemaField`, rule: 'field', message: error.message }];
    throw error;
  }
  const source = sourceSamples(context, test.right, `${place}.comparisonField`);
  if ('problem' in source) return [source.problem];
  if (!source.samples) return [];
  const at = `${place}.comparisonField.${test.right.kind === 'literal' ? 'value' : 'type'}`;
  if (test.kind === 'in' && !source.samples.some(Array.isArray)) {
    return [{ path: at, rule: 'type', message: 'must be a list: declare the input as array' }];
  }
  const found = textProblems(context, leaf, at);
  return found.length > 0
    ? found
    : firstFit(source.samples, (sample) => conditionProblems(context, filled(leaf, sample, at)));
}

/** `like` and `search` need a text to look into. */
const textProblems = (
  context: CheckContext,
  leaf: EndpointLeaf,
  place: string,
): readonly Problem[] =>
  leaf.test.kind === 'like' || leaf.test.kind === 'search'
    ? conditionProblems(context, filled(leaf, 'text', place))
    : [];

function conditionProblems(
  { schema, schemas }: CheckContext,
  condition: Condition,
): readonly Problem[] {
  return problemsFrom(() =>
    bindCondition(schema, condition, { schema: (name) => schemas.get(name), hidden: false }),
  );
}

/** What a checker would throw, as a list. */
function problemsFrom(check: () => unknown): readonly Problem[] {
  try {
    check();
    return [];
  } catch (error) {
    const { errors } = error as { readonly errors?: readonly Problem[] };
    if (!errors) throw error;
    return errors;
  }
}

/** One value that fits is enough: the others come from the width of the type. */
function firstFit(
  samples: readonly unknown[],
  check: (sample: unknown) => readonly Problem[],
): readonly Problem[] {
  const found = samples.map(check);
  return found.some((problems) => problems.length === 0) ? [] : (found[0] ?? []);
}

type Samples = { readonly samples: readonly unknown[] | undefined } | { readonly problem: Problem };

/** What a source can give. `undefined`: anything. */
function sourceSamples(
  { endpoint, schemas }: CheckContext,
  operand: Operand,
  place: string,
): Samples {
  const unknown = (message: string): Samples => ({
    problem: { path: `${place}.value`, rule: 'reference', message },
  });
  if (operand.kind === 'literal') return { samples: [operand.value] };
  if (operand.kind === 'input') {
    const input = endpoint.inputs.find(({ name }) => name === operand.name);
    return input ? { samples: samplesOfInput(input) } : unknown('is not the name of an input');
  }
  // Fields stand for themselves, and have no samples: `filled` leaves them as they are.
  if (operand.kind !== 'context') return { samples: [undefined] };
  const field = contextField(operand.name, schemas);
  return field
    ? { samples: samplesOfField(field) }
    : unknown('is not in the context; it has user._id and the visible fields of User');
}

function assignmentProblems(context: CheckContext): readonly Problem[] {
  const { endpoint, schema } = context;
  const changeable = changeableFields(schema, endpoint.operation);
  return endpoint.assignments.flatMap((assignment, index) =>
    oneAssignmentProblems(context, { assignment, changeable, place: `assignments.${index}` }),
  );
}

interface AssignmentPlace {
  readonly assignment: EndpointAssignment;
  readonly changeable: ReadonlySet<string>;
  readonly place: string;
}

function oneAssignmentProblems(
  context: CheckContext,
  { assignment, changeable, place }: AssignmentPlace,
): readonly Problem[] {
  const { endpoint, schema } = context;
  const { schemaField, action: code, assignmentField } = assignment;
  const action = assignmentActions[code] ?? 'set';
  if (!changeable.has(schemaField)) {
    return [
      {
        path: `${place}.schemaField`,
        rule: 'field',
        message: `is not a field of ${schema.name} that an endpoint may write`,
      },
    ];
  }
  if (code > 0 && endpoint.operation !== put) {
    return [
      {
        path: `${place}.action`,
        rule: 'operation',
        message: 'only operation 2 (PUT) can do more than set',
      },
    ];
  }
  const source = sourceSamples(
    context,
    operandOf({ type: assignmentField.type, value: assignmentField.value }),
    `${place}.assignmentField`,
  );
  if ('problem' in source) return [source.problem];
  const at = `${place}.assignmentField`;
  const check = (value: unknown) =>
    problemsFrom(() => bindAssignments(schema, [{ field: schemaField, action, value, place: at }]));
  if (assignmentField.type === 'Custom') return check(assignmentField.value ?? null);
  // Rules of the field can refuse a sample that stands for others: only a wrong type is certain.
  return source.samples
    ? firstFit(source.samples, check).filter(({ rule }) => rule === 'type' || rule === 'action')
    : [];
}
