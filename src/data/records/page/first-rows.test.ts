/** Pages whose rows stand further along the order than was looked: how often that is done in vain, and what is remembered. */
import { expect, it } from 'vitest';
import type { FirstWay, RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { type FirstRowsRequest, readByFirstRows } from './first-rows.ts';
import type { Page, PageRow } from './page.ts';

const schema = { layout: { indexes: {} } } as CompiledSchema;
const otherwise: FirstWay = { key: 'merge', compile: () => '' };
const walk: FirstWay = { ...otherwise, key: 'walk', otherwise };

function reader({ short = true, order = false, filtered = false, current = true } = {}) {
  const log: string[] = [];
  const predicate: RowPredicate = {
    ...{ shape: 'rows', compile: () => 'true', identity: {} },
    first: { way: () => walk },
    rememberStart: async () => void log.push('remember'),
  };
  const among = { count: 20, stretches: ['true'], order: order ? () => 'd.rank' : undefined };
  const page = { among, sort: [], shape: 'first' } as unknown as Page;
  const request: FirstRowsRequest = { schema, page, predicate, filtered };
  const read = () =>
    readByFirstRows(request, async (first) => {
      log.push(first?.key ?? 'all');
      const row: PageRow = { json: '', ...(first === walk && { short, current }) };
      return row;
    });
  return { read, log };
}

it('are walked to once, and it is remembered where rows begin in the order of the ids', async () => {
  const { read, log } = reader();
  await read();
  expect(log.splice(0)).toEqual(['walk', 'merge', 'remember']);
  await read();
  expect(log).toEqual(['merge', 'remember']);
});

it.each([
  { of: 'another order', options: { order: true }, log: ['walk', 'merge'] },
  { of: 'a filter', options: { filtered: true }, log: ['walk', 'merge'] },
  { of: 'enough rows', options: { short: false }, log: ['walk'] },
  { of: 'rights that changed', options: { current: false }, log: ['walk'] },
])('are not remembered in case of $of', async ({ options, log: expected }) => {
  const { read, log } = reader(options);
  await read();
  expect(log).toEqual(expected);
});
