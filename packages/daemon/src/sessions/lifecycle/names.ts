// Names for sessions that were given none: two words and a short suffix, easy to say and to type.
import { randomInt } from 'node:crypto'

const QUALITIES =
  'amber bold brave bright brisk calm clear cool coral crisp dusty early fair fleet fond fresh gentle glad golden grand green happy hardy keen kind late light lively lucky mellow merry misty mild neat nimble noble olive patient plain proud quick quiet rapid ready round rustic salty sandy sharp silent silver sleek smooth snowy soft solid spry steady still sunny swift tidy warm wide wild wise'.split(
    ' ',
  )
const THINGS =
  'acorn badger beach birch bison brook canyon cedar cliff cloud clover comet condor creek crane delta dune eagle ember falcon fern finch fjord forest fox glacier grove gull harbor hawk heron hill island ivy jay lagoon lake lark linden lynx maple marsh meadow mesa moss moth oak orchid osprey otter owl palm pebble pine plover quail raven reef ridge river robin shore sparrow spruce stone summit swan thrush tide trout tulip valley willow wren'.split(
    ' ',
  )
const SUFFIX = 'abcdefghjkmnpqrstuvwxyz23456789'

export function madeUpName(): string {
  const suffix = Array.from({ length: 4 }, () => SUFFIX[randomInt(SUFFIX.length)]).join('')
  return `${QUALITIES[randomInt(QUALITIES.length)]}-${THINGS[randomInt(THINGS.length)]}-${suffix}`
}
