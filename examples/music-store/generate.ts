/**
 * Makes the data set: invented names, Chinook's proportions, and relations that
 * hold. The same seed gives the same rows.
 */
import { type Chance, createChance } from './random.ts';
import type { TableName } from './schemas.ts';
import * as words from './words.ts';

/** Stands for the id of a row that gets its id only when it is stored. */
export interface Reference {
  readonly table: TableName;
  /** Place of the row in its table. */
  readonly row: number;
}

export type Row = Readonly<Record<string, unknown>>;
export type Dataset = Readonly<Record<TableName, readonly Row[]>>;

/** Rows of each table in the original sample. */
export const sizes: Readonly<Record<TableName, number>> = {
  Genre: 25,
  MediaType: 5,
  Artist: 275,
  Album: 347,
  Track: 3503,
  Playlist: 18,
  PlaylistTrack: 8715,
  Employee: 8,
  Customer: 59,
  Invoice: 412,
  InvoiceLine: 2240,
};

const DAY_MS = 24 * 60 * 60 * 1000;

const range = (size: number): number[] => Array.from({ length: size }, (_, index) => index);
const date = (year: number, days: number): string =>
  new Date(Date.UTC(year, 0, 1) + days * DAY_MS).toISOString();
const cents = (value: number): number => Math.round(value * 100) / 100;
const ascii = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/[^A-Za-z]/g, '')
    .toLowerCase();

const phrase = (chance: Chance): string =>
  `${chance.pick(words.adjectives)} ${chance.pick(words.nouns)}`;

/** `size` different names; the ones that come up again get a number. */
function uniqueNames(size: number, make: () => string): string[] {
  const seen = new Map<string, number>();
  return range(size).map(() => {
    const name = make();
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    return times === 1 ? name : `${name} No. ${times}`;
  });
}

function artistName(chance: Chance): string {
  if (chance.happens(0.4))
    return `${chance.pick(words.firstNames)} ${chance.pick(words.lastNames)}`;
  return chance.happens(0.5)
    ? `The ${phrase(chance)}s`
    : `${phrase(chance)} & the ${chance.pick(words.nouns)}s`;
}

function address(chance: Chance): Row {
  const [city, state, country] = chance.pick(words.places);
  return {
    street: `${chance.between(1, 240)} ${chance.pick(words.streets)}`,
    city,
    ...(state === '' ? {} : { state }),
    country,
    postalCode: String(chance.between(10_000, 99_999)),
  };
}

function person(chance: Chance, index: number, domain: string): Row {
  const firstName = chance.pick(words.firstNames);
  const lastName = chance.pick(words.lastNames);
  return {
    firstName,
    lastName,
    address: address(chance),
    phone: `+${chance.between(1, 99)} ${chance.between(100, 999)} ${chance.between(1_000_000, 9_999_999)}`,
    email: `${ascii(firstName)}.${ascii(lastName)}.${index + 1}@${domain}`,
  };
}

function albums(chance: Chance): Row[] {
  return range(sizes.Album).map(() => ({
    title: chance.happens(0.2)
      ? `${phrase(chance)}, Live in ${chance.pick(words.places)[0]}`
      : phrase(chance),
    artist: { table: 'Artist', row: chance.between(0, sizes.Artist - 1) },
    releasedOn: date(chance.between(1962, 2024), chance.between(0, 364)),
  }));
}

function tracks(chance: Chance): Row[] {
  const perAlbum = chance.split(sizes.Track, sizes.Album, { low: 1, high: 34 });
  return perAlbum.flatMap((size, album) => {
    const genre: Reference = { table: 'Genre', row: chance.between(0, sizes.Genre - 1) };
    const mediaType: Reference = {
      table: 'MediaType',
      row: chance.between(0, sizes.MediaType - 1),
    };
    return range(size).map(() => {
      const milliseconds = chance.between(61_000, 620_000);
      return {
        name: chance.happens(0.1) ? `“${phrase(chance)}”` : phrase(chance),
        album: { table: 'Album', row: album },
        mediaType,
        genre,
        ...(chance.happens(0.7)
          ? { composer: `${chance.pick(words.firstNames)} ${chance.pick(words.lastNames)}` }
          : {}),
        milliseconds,
        bytes: milliseconds * chance.between(28, 36),
        unitPrice: chance.happens(0.06) ? 1.99 : 0.99,
      };
    });
  });
}

function playlists(chance: Chance): Row[] {
  return uniqueNames(sizes.Playlist, () => `${chance.pick(words.adjectives)} Hours`).map(
    (name) => ({
      name,
      description: `For ${chance.pick(words.moods)} days; one's own choice, "as is"`,
      moods: chance.sample(words.moods, chance.between(1, 3)),
    }),
  );
}

function playlistTracks(chance: Chance): Row[] {
  const perPlaylist = chance.split(sizes.PlaylistTrack, sizes.Playlist, { low: 1, high: 3_290 });
  const every = range(sizes.Track);
  return perPlaylist.flatMap((size, playlist) =>
    chance.sample(every, size).map((track, index) => ({
      playlist: { table: 'Playlist', row: playlist },
      track: { table: 'Track', row: track },
      position: index + 1,
    })),
  );
}

function employees(chance: Chance): Row[] {
  return range(sizes.Employee).map((index) => {
    const manager = words.managerOf[index];
    return {
      ...person(chance, index, 'music-store.example'),
      title: words.jobTitles[index],
      ...(manager === undefined ? {} : { reportsTo: { table: 'Employee', row: manager } }),
      birthDate: date(chance.between(1958, 1995), chance.between(0, 364)),
      hireDate: date(chance.between(2016, 2020), chance.between(0, 364)),
    };
  });
}

function customers(chance: Chance): Row[] {
  const agents = range(sizes.Employee).filter(
    (index) => words.jobTitles[index] === 'Support Agent',
  );
  return range(sizes.Customer).map((index) => ({
    ...person(chance, index, 'listeners.example'),
    ...(chance.happens(0.2) ? { company: `${phrase(chance)} Ltd.` } : {}),
    supportRep: { table: 'Employee', row: chance.pick(agents) },
  }));
}

/** Invoices with their lines: the total of an invoice is the sum of its lines. */
function sales(
  chance: Chance,
  trackRows: readonly Row[],
  customerRows: readonly Row[],
): { invoices: Row[]; lines: Row[] } {
  const lines: Row[] = [];
  const invoices = chance
    .split(sizes.InvoiceLine, sizes.Invoice, { low: 1, high: 14 })
    .map((size, invoice) => {
      const customer = chance.between(0, sizes.Customer - 1);
      let total = 0;
      for (const track of chance.sample(range(sizes.Track), size)) {
        const unitPrice = Number(trackRows[track]?.unitPrice);
        total += unitPrice;
        lines.push({
          invoice: { table: 'Invoice', row: invoice },
          track: { table: 'Track', row: track },
          unitPrice,
          quantity: 1,
        });
      }
      return {
        customer: { table: 'Customer', row: customer },
        invoiceDate: date(2021, Math.floor((invoice * 5 * 365) / sizes.Invoice)),
        billing: customerRows[customer]?.address,
        total: cents(total),
      };
    });
  return { invoices, lines };
}

/** The whole data set: 11 tables, 15,607 rows. */
export function generate(seed = 20_090_101): Dataset {
  const chance = createChance(seed);
  const Track = tracks(chance);
  const Customer = customers(chance);
  const { invoices, lines } = sales(chance, Track, Customer);
  return {
    Genre: words.genres.map((name) => ({ name })),
    MediaType: words.mediaTypes.map((name) => ({ name })),
    Artist: uniqueNames(sizes.Artist, () => artistName(chance)).map((name) => ({ name })),
    Album: albums(chance),
    Track,
    Playlist: playlists(chance),
    PlaylistTrack: playlistTracks(chance),
    Employee: employees(chance),
    Customer,
    Invoice: invoices,
    InvoiceLine: lines,
  };
}
