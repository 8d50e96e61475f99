/** A few reads, as an app would make them, with what came back. */
import { type Api, ApiError } from './api.ts';

interface Page<T> {
  readonly documents: readonly T[];
  readonly count: number;
}

interface Named {
  readonly _id: string;
  readonly name: string;
}

interface Album {
  readonly _id: string;
  readonly title: string;
  readonly artist: Named;
}

interface Track extends Named {
  readonly milliseconds: number;
  readonly album: Album;
  readonly genre: Named;
}

interface Person {
  readonly firstName: string;
  readonly lastName: string;
}

interface Invoice {
  readonly _id: string;
  readonly total: number;
  readonly invoiceDate: string;
  readonly customer: Person & { readonly supportRep: Person };
}

interface InvoiceLine {
  readonly invoice: string;
  readonly unitPrice: number;
  readonly quantity: number;
}

type Print = (line: string) => void;

const PAGE_SIZE = 500;
const fullName = ({ firstName, lastName }: Person): string => `${firstName} ${lastName}`;

function duration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

/** Every record of a table, page by page. */
async function* everyRecord<T>(api: Api, table: string): AsyncGenerator<T> {
  for (let skip = 0; ; skip += PAGE_SIZE) {
    const { documents, count } = await api.get<Page<T>>(`/database/${table}`, {
      skip,
      limit: PAGE_SIZE,
    });
    yield* documents;
    if (skip + PAGE_SIZE >= count) return;
  }
}

/** Sort and populate two levels deep: the relation comes back as the record it points to. */
async function longestTracks(api: Api, print: Print): Promise<void> {
  const page = await api.get<Page<Track>>('/database/Track', {
    sort: ['-milliseconds', 'name'],
    populate: ['album.artist', 'genre'],
    limit: 5,
  });
  print(`The five longest of ${page.count} tracks`);
  for (const track of page.documents) {
    print(
      `  ${duration(track.milliseconds)}  ${track.name} · ${track.album.artist.name}, ${track.album.title} (${track.genre.name})`,
    );
  }
}

/** Skip and limit: a page from the middle. */
async function artistsInTheMiddle(api: Api, print: Print): Promise<void> {
  const skip = 100;
  const page = await api.get<Page<Named>>('/database/Artist', { sort: 'name', skip, limit: 5 });
  print(`Artists ${skip + 1} to ${skip + page.documents.length} of ${page.count}, by name`);
  print(`  ${page.documents.map(({ name }) => name).join(' · ')}`);
}

/** One record by id, with what it points to. */
async function dearestInvoice(api: Api, print: Print): Promise<void> {
  const { documents } = await api.get<Page<{ _id: string }>>('/database/Invoice', {
    sort: '-total',
    limit: 1,
  });
  const id = documents[0]?._id;
  if (id === undefined) throw new Error('There are no invoices');
  const invoice = await api.get<Invoice>(`/database/Invoice/${id}`, {
    populate: 'customer.supportRep',
  });
  print(`The dearest invoice: ${invoice.total.toFixed(2)} on ${invoice.invoiceDate.slice(0, 10)}`);
  print(
    `  bought by ${fullName(invoice.customer)}, looked after by ${fullName(invoice.customer.supportRep)}`,
  );
}

/** Walks whole tables in pages and adds up: the lines of each invoice must make its total. */
async function booksBalance(api: Api, print: Print): Promise<void> {
  const sums = new Map<string, number>();
  let lines = 0;
  for await (const line of everyRecord<InvoiceLine>(api, 'InvoiceLine')) {
    lines += 1;
    sums.set(line.invoice, (sums.get(line.invoice) ?? 0) + line.unitPrice * line.quantity);
  }
  let turnover = 0;
  for await (const invoice of everyRecord<Omit<Invoice, 'customer'>>(api, 'Invoice')) {
    if (Math.abs(invoice.total - (sums.get(invoice._id) ?? 0)) > 0.005)
      throw new Error(`The lines of invoice ${invoice._id} do not make its total`);
    turnover += invoice.total;
  }
  print(
    `The books balance: ${lines} lines make ${sums.size} invoices, ${turnover.toFixed(2)} in all`,
  );
}

/** People and sales are for signed-in users only. */
async function strangersAreRefused(anonymous: Api, print: Print): Promise<void> {
  const status = await anonymous.get('/database/Customer').then(
    () => 200,
    (error: unknown) => {
      if (error instanceof ApiError) return error.status;
      throw error;
    },
  );
  if (status !== 401)
    throw new Error(
      `Customers must not be readable without signing in, but the answer was ${status}`,
    );
  print('Customers without signing in: 401, as it should be');
}

export async function takeTour(api: Api, anonymous: Api, print: Print): Promise<void> {
  await longestTracks(api, print);
  await artistsInTheMiddle(api, print);
  await dearestInvoice(api, print);
  await booksBalance(api, print);
  await strangersAreRefused(anonymous, print);
}
