/** What whoever writes a function must be allowed to touch. */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { type AuthorityObject, schemaObject } from '../../../kernel/authority.ts';
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
  const [source = '', , schema = ''] = hears ? event.split(/[.:]/) : [];
  return [
    mine,
    ...(module === undefined ? [] : [moduleObject(module)]),
    ...schemaObject(schemas.get(trigger?.schema ?? '')),
    ...(source === '' ? [] : [moduleObject(source), ...schemaObject(schemas.get(schema))]),
    ...(source === 'database' && event.includes('*') ? [ofAnySchema] : []),
    ...(rights === 'system' ? [withSystemRights] : []),
    ...(trigger?.schema !== undefined && trigger.when === 'before' ? [beforeWrites] : []),
  ];
}

const everything = (what: string) => ({ kind: 'everything', what }) as const;
const withSystemRights = everything('Code with the rights of the system');
const ofAnySchema = everything('Hearing of records of any schema');
const beforeWrites = everything('A hook before writes, which acts for whoever writes,');
