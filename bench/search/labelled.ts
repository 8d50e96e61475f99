/** Texts and questions, each with the one text that answers it. Half of the questions say it in other words, half by a name. */

export interface Question {
  readonly text: string;
  /** Title of the text that answers it. */
  readonly answer: string;
}

export const texts: readonly (readonly [title: string, body: string])[] = [
  ['Sourdough', 'Flour, water and salt ferment overnight and go into a hot oven in the morning.'],
  [
    'Brake pads',
    'When it squeaks at every stop, the lining of the wheels is worn out and must be changed.',
  ],
  [
    'Savings account',
    'Money that you put aside earns interest every year, and stays safe up to a limit.',
  ],
  ['Migraine', 'A strong pain on one side of the head, often with nausea and fear of light.'],
  [
    'Tomato plants',
    'They want sun, a stick to lean on, and water at their roots rather than on the leaves.',
  ],
  [
    'Marathon plan',
    'Sixteen weeks of training, with one long distance every Sunday and rest on Monday.',
  ],
  [
    'Router setup',
    'Plug the box into the wall, wait for the green light and choose a password for the wireless network.',
  ],
  [
    'Lease contract',
    'The tenant pays on the first day of a month and gives notice three months ahead.',
  ],
  ['Puppy school', 'Young dogs learn to sit, to come when called, and not to chew shoes.'],
  [
    'Jazz history',
    'From New Orleans it went to Chicago and New York, with trumpet, piano and improvisation.',
  ],
  ['Volcanoes', 'Molten rock rises through the crust and flows down the slopes as lava.'],
  [
    'Tax return',
    'Collect your receipts and declare your income to the authorities before the end of May.',
  ],
  [
    'Insomnia',
    'Who lies awake at night should leave the phone outside of the bedroom and get up at the same hour.',
  ],
  [
    'Chess openings',
    'Move the pawns of the centre, bring out knights and bishops, and castle early.',
  ],
  ['Solar panels', 'Cells on a roof turn light into current, which feeds the house or the grid.'],
  [
    'Wedding speech',
    'Be brief, thank the parents, tell one funny story about the couple and raise a glass.',
  ],
  ['Bicycle tube', 'Take out the wheel, find the hole under water, glue a patch over it and pump.'],
  [
    'Job interview',
    'Read about the company, dress well, and have an example ready for each of your strengths.',
  ],
  ['Coral reefs', 'Warm seas bleach them: the algae leave, and the colours of the sea floor fade.'],
  ['Pasta sauce', 'Fry garlic in oil, add peeled fruit from a tin and let it simmer for an hour.'],
  ['Pump P-4417', 'Spare part for the washing machine. Fits models from 2019.'],
  ['Pump P-4471', 'Spare part for the dishwasher. Fits models from 2021.'],
  ['Error E0282', 'The type cannot be found out: write it down behind the name.'],
  ['Error E0502', 'The value is borrowed already: end the first use before the second one.'],
  ['Villa Krokus', 'House by the lake with six beds and a boat.'],
  ['Villa Enzian', 'House in the hills with four beds and a sauna.'],
  ['Meeting with Adeyemi', 'Talked about the budget of the next quarter and the new office.'],
  ['Meeting with Okonkwo', 'Talked about the travel costs and the new contracts.'],
  ['Flight LX 1612', 'Leaves at seven in the morning from gate B.'],
  ['Flight OS 561', 'Leaves at nine in the evening from gate F.'],
  ['Paint RAL 5015', 'Sky blue for metal, dries within four hours.'],
  ['Paint RAL 6005', 'Moss green for wood, dries within a day.'],
];

export const questions: readonly Question[] = [
  { text: 'how to bake bread at home', answer: 'Sourdough' },
  { text: 'my car makes a noise when I slow down', answer: 'Brake pads' },
  { text: 'where should I keep my cash at the bank', answer: 'Savings account' },
  { text: 'terrible headache', answer: 'Migraine' },
  { text: 'growing vegetables in the garden', answer: 'Tomato plants' },
  { text: 'preparing for a running race', answer: 'Marathon plan' },
  { text: 'connect to the internet', answer: 'Router setup' },
  { text: 'renting a flat', answer: 'Lease contract' },
  { text: 'teach my pet to obey', answer: 'Puppy school' },
  { text: 'American music of the last century', answer: 'Jazz history' },
  { text: 'eruption of a mountain', answer: 'Volcanoes' },
  { text: 'paperwork for the revenue office', answer: 'Tax return' },
  { text: 'I cannot sleep', answer: 'Insomnia' },
  { text: 'strategy of a board game', answer: 'Chess openings' },
  { text: 'electricity from the sun', answer: 'Solar panels' },
  { text: 'fix a flat tyre', answer: 'Bicycle tube' },
  { text: 'P-4417', answer: 'Pump P-4417' },
  { text: 'pump P-4471', answer: 'Pump P-4471' },
  { text: 'E0282', answer: 'Error E0282' },
  { text: 'error E0502', answer: 'Error E0502' },
  { text: 'Krokus', answer: 'Villa Krokus' },
  { text: 'Enzian', answer: 'Villa Enzian' },
  { text: 'Adeyemi', answer: 'Meeting with Adeyemi' },
  { text: 'Okonkwo', answer: 'Meeting with Okonkwo' },
  { text: 'LX 1612', answer: 'Flight LX 1612' },
  { text: 'OS 561', answer: 'Flight OS 561' },
  { text: 'RAL 5015', answer: 'Paint RAL 5015' },
  { text: 'RAL 6005', answer: 'Paint RAL 6005' },
];
