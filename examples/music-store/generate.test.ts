import { describe, expect, it } from 'vitest';
import { generate, type Reference, type Row, sizes } from './generate.ts';
import { type TableName, tableNames } from './schemas.ts';

const data = generate();

function references(row: Row): Reference[] {
  return Object.values(row).filter(
    (value): value is Reference => typeof value === 'object' && value !== null && 'table' in value,
  );
}

const distinct = (table: TableName, key: (row: Row) => unknown): number =>
  new Set(data[table].map((row) => JSON.stringify(key(row)))).size;

describe('the data set', () => {
  it('has the size of the sample', () => {
    const counted = Object.fromEntries(tableNames.map((table) => [table, data[table].length]));
    expect(counted).toEqual(sizes);
  });

  it('is the same for the same seed, and another for another', () => {
    expect(generate()).toEqual(data);
    expect(generate(1).Artist).not.toEqual(data.Artist);
  });

  it.each(tableNames)('%s points only to rows that exist', (table) => {
    for (const { table: target, row } of data[table].flatMap(references))
      expect(data[target][row]).toBeDefined();
  });

  it('keeps unique what the schemas call unique', () => {
    for (const table of ['Genre', 'MediaType', 'Artist', 'Playlist'] as const)
      expect(distinct(table, (row) => row.name)).toBe(sizes[table]);
    for (const table of ['Employee', 'Customer'] as const)
      expect(distinct(table, (row) => row.email)).toBe(sizes[table]);
    expect(distinct('PlaylistTrack', ({ playlist, track }) => [playlist, track])).toBe(
      sizes.PlaylistTrack,
    );
  });

  it('gives each invoice the total of its lines', () => {
    const totals = data.Invoice.map(() => 0);
    for (const line of data.InvoiceLine) {
      const { row } = line.invoice as Reference;
      totals[row] = (totals[row] ?? 0) + Number(line.unitPrice) * Number(line.quantity);
    }
    data.Invoice.forEach((invoice, index) => {
      expect(invoice.total).toBeCloseTo(totals[index] ?? 0, 2);
    });
  });
});
