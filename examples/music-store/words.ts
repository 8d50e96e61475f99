/** The words that names are made of. All names in the data set are invented. */

const list = (text: string): readonly string[] => text.trim().split(/\s*,\s*/);

export const adjectives = list(`
  Amber, Backward, Borrowed, Brass, Clockwork, Crooked, Distant, Dusty, Electric, Faded, Folded, Gentle, Half-Lit, Hollow, Idle, Inland,
  Late, Lunar, Marble, Midnight, Northern, Paper, Patient, Quiet, Restless, Rusted, Saffron, Second, Silver, Slow, Spare, Sudden, Tidal,
  Unsent, Velvet, Wandering, Winter, Wooden`);

export const nouns = list(`
  Atlas, Avenue, Balcony, Bicycle, Carousel, Cathedral, Compass, Corridor, Ferry, Garden, Glacier, Harbour, Heron, Horizon, Kettle, Lantern,
  Letter, Lighthouse, Meadow, Mirror, Monsoon, Orchard, Parade, Pendulum, Piano, Planet, Postcard, River, Rooftop, Satellite, Shoreline,
  Signal, Staircase, Station, Sundial, Telescope, Timetable, Umbrella, Window, Zeppelin Hangar`);

export const firstNames = list(`
  Adèle, Agnieszka, Amadou, Björn, Camila, Chiara, Dmitri, Elif, Fionnuala, Gustav, Hana, Ingrid, João, Kofi, Lucía, Małgorzata, Mei, Niamh,
  Oluwaseun, Priya, Quentin, Rania, Søren, Tomáš, Ulrike, Víctor, Wanjiru, Yusuf, Zoë`);

export const lastNames = list(`
  Abernathy, Bergström, Castellanos, D’Amico, Eriksen, Ferreira, Grünwald, Horváth, Iwasaki, Jovanović, Kowalczyk, Lindqvist, MacAllister,
  N’Diaye, O’Rourke, Pålsson, Quiroga, Rasmussen, Şahin, Tremblay, Ustinov, Vandenberghe, Wójcik, Yamaguchi, Zanetti`);

/** City, state (empty where there is none), country. */
export const places: readonly (readonly [city: string, state: string, country: string])[] = [
  ['Aarhus', '', 'Denmark'],
  ['Bilbao', '', 'Spain'],
  ['Calgary', 'AB', 'Canada'],
  ['Cork', '', 'Ireland'],
  ['Curitiba', 'PR', 'Brazil'],
  ['Dresden', '', 'Germany'],
  ['Gdańsk', '', 'Poland'],
  ['Halifax', 'NS', 'Canada'],
  ['Lyon', '', 'France'],
  ['Málaga', '', 'Spain'],
  ['Portland', 'OR', 'USA'],
  ['Porto', '', 'Portugal'],
  ['Tucson', 'AZ', 'USA'],
  ['Wellington', '', 'New Zealand'],
  ['Zürich', '', 'Switzerland'],
];

export const streets = list(
  'Canal Row, Elm Lane, Foundry Street, Granary Square, Hill Road, Mill Walk, Quay Street, Station Road, Tower Court',
);

export const genres = list(`
  Acoustic, Afrobeat, Ambient, Baroque, Big Band, Blues, Bossa Nova, Chamber, Country, Dub, Electronic, Fado, Folk, Funk, Hip Hop, House,
  Indie Rock, Jazz, Metal, Opera, Pop, Reggae, Soul, Soundtrack, Spoken Word`);

export const mediaTypes = list('AAC audio, FLAC audio, MPEG audio, Protected AAC audio, Video');

export const moods = [
  'bright',
  'calm',
  'driving',
  'late, after work',
  'nostalgic',
  'rainy',
  'focused',
];

export const jobTitles = list(
  'General Manager, Sales Manager, Support Agent, Support Agent, Support Agent, IT Manager, IT Staff, IT Staff',
);

/** For each employee the place in the list above of the one they report to. */
export const managerOf: readonly (number | undefined)[] = [undefined, 0, 1, 1, 1, 0, 5, 5];
