/** Rules about the inputs of an endpoint. */
import type { Problem } from '../../../../kernel/errors.ts';
import { type EndpointDefinition, type EndpointInput, inputLocation, methodOf } from './definition.ts';
import { platformParameters } from './inputs.ts';

const nameRule = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;

export function inputProblems({ inputs, operation }: EndpointDefinition): readonly Problem[] {
  const seen = new Set<string>();
  return inputs.flatMap((input, index) => {
    const fault = inputFault(input, methodOf[operation] ?? 'GET') ?? (seen.has(input.name) ? twin : undefined);
    seen.add(input.name);
    return fault ? [{ path: `inputs.${index}.${fault.key}`, rule: fault.rule, message: fault.message }] : [];
  });
}

interface Fault {
  readonly key: string;
  readonly rule: string;
  readonly message: string;
}

const twin: Fault = { key: 'name', rule: 'unique', message: 'another input has this name' };

function inputFault({ name, type, location, array, optional }: EndpointInput, method: string): Fault | undefined {
  if (!nameRule.test(name) || name in Object.prototype) {
    return { key: 'name', rule: 'name', message: 'starts with a letter or _, then letters, digits and _, at most 63 in all' };
  }
  if (location === inputLocation.query && platformParameters.has(name)) {
    return { key: 'name', rule: 'name', message: `"${name}" is a query parameter of the platform; choose another name` };
  }
  if (location === inputLocation.body && (method === 'GET' || method === 'DELETE')) {
    return { key: 'location', rule: 'location', message: `${method} has no body: put the input into the query (1) or the path (2)` };
  }
  if (location !== inputLocation.body && type === 'Vector')
    return { key: 'type', rule: 'type', message: 'a Vector can only stand in the body' };
  if (location === inputLocation.query && type === 'JSON' && array) {
    return { key: 'array', rule: 'location', message: 'leave array out: one JSON value in a query can be a list' };
  }
  if (location !== inputLocation.path) return undefined;
  if (array) return { key: 'array', rule: 'location', message: 'an input in the path cannot be a list' };
  return optional ? { key: 'optional', rule: 'location', message: 'an input in the path cannot be optional' } : undefined;
}
