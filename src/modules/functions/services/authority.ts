/** What whoever writes a function must be allowed to touch. */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { type AuthorityObject, adminOwner, schemaObject } from '../../../kernel/authority.ts';
import type { FunctionDefinition } from '../definition/definition.ts';

const moduleObject = (module: string) => ({ kind: 'module', module }) as const;
/** Every function. */
export const mine = moduleObject('functions');

/** What sign-ups, sign-ins and messages belong to. */
const modulesOfOperations: ReadonlyMap<string, string> = new Map([
  ['signUp', 'authentication'],
  ['signIn', 'authentication'],
  ['send', 'communications'],
]);

/**
 * What the code of a function touches by itself: with the rights of the system everything, and what it is called for.
 * A hook before writes acts for whoever writes, and that may be an operator or the platform itself. Whoever writes the
 * function must be allowed to touch all that, or a token for functions alone were one for all.
 */
export function touchedBy(
  { schemas }: { readonly schemas: Pick<SchemaRegistry, 'get'> },
  { functionType, inputs }: Pick<FunctionDefinition, 'functionType' | 'inputs'>,
): readonly AuthorityObject[] {
  const { rights, trigger, event = '' } = inputs;
  const module = trigger && modulesOfOperations.get(trigger.op);
  const hears = functionType === 'event' || functionType === 'workflow';
  const [source = '', verb = '', schema = ''] = hears ? event.split(/[.:]/) : [];
  const ofRecords = source === 'database' && recordVerbs.has(verb) && schema !== 'schema';
  const isAny = source === 'database' && event.includes('*');
  const named = (name: string): readonly AuthorityObject[] => {
    const found = schemas.get(name);
    return found ? schemaObject(found) : [ofSchemaToCome];
  };
  return [
    mine,
    ...(module === undefined ? [] : [moduleObject(module)]),
    ...(trigger?.schema === undefined ? [] : named(trigger.schema)),
    ...(source === '' ? [] : [moduleObject(source)]),
    ...(ofRecords && schema !== '' && !isAny ? named(schema) : schemaObject(schemas.get(schema))),
    ...(isAny ? [ofAnySchema] : []),
    ...(rights === 'system' ? [withSystemRights] : []),
    ...(trigger?.when === 'before' ? beforeOf(trigger) : []),
    ...(functionType === 'middleware' ? [beforeRoutes] : []),
  ];
}

const recordVerbs: ReadonlySet<string> = new Set(['create', 'update', 'delete']);

const beforeOf = ({ op, schema }: NonNullable<FunctionDefinition['inputs']['trigger']>) => [
  ...(schema === undefined ? [] : [beforeWrites]),
  ...(op === 'send' ? [beforeMessages] : []),
];

/**
 * What whoever writes a version must be allowed to touch. Code stands in the place of the routes of operators' own schemas
 * (`ctx.db`): it gives its callers what these routes may not give them, and nobody gives what they have not got.
 */
export const writtenWith = (
  parts: Parameters<typeof touchedBy>[0],
  definition: Parameters<typeof touchedBy>[1],
): readonly AuthorityObject[] => [
  ...touchedBy(parts, definition),
  ...(reachesRecords(definition.inputs) ? [ownRecords] : []),
];

/** Unless its capabilities leave them out. */
const reachesRecords = ({ capabilities }: FunctionDefinition['inputs']): boolean =>
  capabilities?.some((one) => one.split(':', 1)[0] === 'database') ?? true;

const ownRecords = {
  kind: 'schema',
  name: 'ctx.db (inputs.capabilities can leave it out)',
  ownerModule: adminOwner,
} as const;

const everything = (what: string) => ({ kind: 'everything', what }) as const;
const withSystemRights = everything('Code with the rights of the system');
const ofAnySchema = everything('Hearing of records of any schema');
const ofSchemaToCome = everything('A hook of records of a schema that there is not yet');
/** Links and codes of all modules stand in them (decision 311). */
const beforeMessages = everything('A hook before messages, which reads those of all modules,');
/** Passwords and tokens stand in what they read. */
const beforeRoutes = everything('A middleware, which reads what is sent to routes of any module,');
const beforeWrites = everything('A hook before writes, which acts for whoever writes,');
