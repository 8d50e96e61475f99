/** Which lists share connections: those that look at few rows, whatever there is. */
import { expect, it } from 'vitest';
import type { FirstWay, ReachedRows, RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Page } from '../page/page.ts';
import { classOfList } from './page-class.ts';
import { noPopulate, type PopulateTree } from './projection.ts';

const schema = { rows: 'app."Note"', table: 'app."Note"' } as CompiledSchema;
const page = { among: { count: 20, order: undefined } } as Page;
const predicate: RowPredicate = { shape: 'own', compile: () => 'true' };
const view = { predicate, populate: noPopulate, conditions: undefined };
const way = (isBounded: boolean): FirstWay => ({ key: 'walk', isBounded, compile: () => '' });
const rows = (isBounded: boolean): ReachedRows => ({ isBounded, compile: () => '' });
const deep: PopulateTree = new Map([['notes', { many: true }]]) as unknown as PopulateTree;

it('shares them where few rows are found, for a page and its number', () => {
  const classOf = (isBounded: boolean, shown = view): string =>
    classOfList(schema, { page, mode: 'exact', reached: rows(isBounded) }, shown);
  expect(classOf(true)).toBe('list');
  expect(classOf(false)).toBe('pooled');
  expect(classOf(true, { ...view, populate: deep })).toBe('pooled');
  const large = { among: { ...page.among, count: 1_000 } } as Page;
  const request = { page: large, mode: 'exact', reached: rows(true) } as const;
  expect(classOfList(schema, request, view)).toBe('pooled');
});

it('shares them where a window along the order is looked at, and nothing is counted', () => {
  const classOf = (isBounded: boolean, mode: 'none' | 'exact' = 'none', of = schema): string =>
    classOfList(of, { page, mode, first: way(isBounded) }, view);
  expect(classOf(true)).toBe('list');
  expect(classOf(false)).toBe('pooled');
  expect(classOf(true, 'exact')).toBe('pooled');
  // Rows in the trash may be any number.
  expect(classOf(true, 'none', { ...schema, rows: '(select ...)' })).toBe('pooled');
});

it('is short where nobody has to be asked', () => {
  const plain = { ...view, predicate: undefined };
  expect(classOfList(schema, { page, mode: 'none' }, plain)).toBe('short');
  expect(classOfList(schema, { page, mode: 'exact' }, plain)).toBe('pooled');
  expect(classOfList(schema, { page, mode: 'none' }, view)).toBe('pooled');
});
