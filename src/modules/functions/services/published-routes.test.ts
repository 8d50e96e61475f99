/** Functions that cannot be served leave the others alone (specification functions.md section 7, row 7). */
import Type from 'typebox';
import { expect, it } from 'vitest';
import { newId } from '../../../kernel/ids.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import {
  createOperationRegistry,
  type OperationRegistry,
} from '../../../kernel/operations/registry.ts';
import { createSocketNamespaces } from '../../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { functionTools } from '../operations/tools.ts';
import { createFunctionRoutes } from './published-routes.ts';
import type { RouteParts } from './routes.ts';
import type { FunctionRunner } from './runner.ts';
import { createFunctionSockets, type FunctionSocketParts } from './sockets.ts';

const log = { error: () => undefined } as unknown as Logger;
let served: readonly Operation[] = [];
const registry = {
  all: () => [],
  replace: (_owner: string, operations: readonly Operation[]) => {
    served = operations;
  },
} as unknown as OperationRegistry;

const stored = (name: string, inputs: unknown, enabled = true): StoredFunction =>
  ({
    ...{ _id: newId(), name, functionType: 'request', inputs, returns: null, timeout: 1_000 },
    enabled,
  }) as StoredFunction;

it('serves what can be served, and tells what is wrong with the rest until it is mended', () => {
  const routes = createFunctionRoutes({} as RouteParts, registry, log);
  const good = stored('good', { method: 'GET' });
  const off = stored('off', { method: 'GET' }, false);
  const bad = stored('bad', { method: 'GET', queryParams: { of: null } });
  routes.publish([bad, good, off]);
  expect(served.map(({ path }) => path)).toEqual(['/functions/good']);
  expect(routes.problemOf(bad._id)).toBeTruthy();
  expect(routes.problemOf(good._id)).toBeUndefined();
  const mended = { ...bad, inputs: { method: 'GET' as const } };
  const [before] = served;
  routes.publish([mended, good]);
  expect(served.map(({ path }) => path)).toEqual(['/functions/bad', '/functions/good']);
  expect(served[1]).toBe(before);
  expect(routes.problemOf(bad._id)).toBeUndefined();
});

it('leaves out what somebody else serves already, and says so', () => {
  const all = createOperationRegistry();
  const output = Type.Object({});
  const facts = { surface: 'client', access: 'public', limit: 'none', input: {}, output } as const;
  all.replace('other', [
    defineOperation({
      ...facts,
      ...{ id: 'other', method: 'GET', path: '/functions/taken', summary: 'x' },
      handler: async () => ({}),
    }),
  ]);
  const routes = createFunctionRoutes({} as RouteParts, all, log);
  const [taken, good] = [stored('taken', { method: 'GET' }), stored('good', { method: 'GET' })];
  routes.publish([taken, good]);
  expect(all.all().map(({ operation }) => operation.path)).toEqual([
    '/functions/good',
    '/functions/taken',
  ]);
  expect(routes.problemOf(taken._id)).toContain('/functions/taken');
  expect(routes.problemOf(good._id)).toBeUndefined();
});

it('leaves out the tool and the socket that cannot be made, and tells whose they are', () => {
  const noted: string[] = [];
  const note = ({ name }: StoredFunction): void => void noted.push(name);
  const bad = stored('bad', {
    method: 'GET',
    queryParams: { a: 'String' },
    bodyParams: { b: null },
  });
  const good = stored('good', { method: 'GET', queryParams: { a: 'String' } });
  const tools = functionTools({} as FunctionRunner, [bad, good], note);
  expect(tools.map(({ id }) => id)).toEqual(['functions.call.good']);
  const namespaces = createSocketNamespaces();
  const bus = { publish: async () => undefined, subscribe: () => undefined };
  const sockets = createFunctionSockets({
    sockets: namespaces,
    bus,
  } as unknown as FunctionSocketParts);
  const socket = (one: StoredFunction): StoredFunction => ({ ...one, functionType: 'socket' });
  sockets.publish([socket(bad), socket(good)], note);
  expect(namespaces.all().map(({ name }) => name)).toEqual(['/functions/good', '/good']);
  expect(noted).toEqual(['bad', 'bad']);
});
